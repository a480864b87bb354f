"""The largest batch that fits a slice, found by compiling."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from vtpu.analysis.program.batch_fit import (
    BatchCandidate,
    BatchPadding,
    BatchSweep,
    allocated_by_a_step,
    batch_padding,
    dimensions,
    per_example,
)
from vtpu.checks.batch_arguments import BatchArguments, read_batch
from vtpu.checks.batch_search import Answer, BatchSearch
from vtpu.checks.check import Check, check_call
from vtpu.checks.compiling import CompileFailed
from vtpu.errors import UsageError, VtpuError
from vtpu.program.memory import AllocationKind, MemorySpace
from vtpu.report.batch_report import batch_as_json, batch_document
from vtpu.report.text import print_document
from vtpu.units import parse_bytes

_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFit(BatchSweep):
    """The sizes that were compiled and what they need. Printed, it is the report."""

    def __str__(self) -> str:
        """The report as plain text."""
        text = io.StringIO()
        print_document(batch_document(self), text)
        return text.getvalue()

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON value, with exact integers."""
        return batch_as_json(self)


def fit_batch(
    fn: Any,
    args: Any,
    batch: Any = None,
    *,
    on: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    margin: str | float = "5%",
    limit: str | int | None = None,
    most_compiles: int = 24,
    resolution: int | None = None,
) -> BatchFit:
    """Finds the largest batch with which a function fits a slice, by compiling it at several sizes.

    Memory is not monotonic in the batch, so every answer is a compile, also above sizes that do not
    fit (see `vtpu.checks.batch_search`). Results come from the cache where it has them.

    Args:
        fn: a function, jitted or not.
        args: its positional arguments, arrays or `jax.ShapeDtypeStruct`; or a function that returns
            them for a size of the batch.
        batch: the present size of the batch, or where it is: `{"x": 0, "labels": 0}`, `(None, 0)`, as
            `in_axes` of `jax.vmap`. With `args` as a function: the size to begin with.
        on: the slice. Default: as in `vtpu.check`.
        kwargs: keyword arguments.
        margin: HBM to leave free: a share (`"5%"`, `0.05`) or a size (`"500MiB"`, bytes).
        limit: HBM to stay in, where that is less than what the compiler grants.
        most_compiles: how many sizes to compile at most.
        resolution: how near to the largest the answer must be. Default: a 64th of it, at small sizes 1.

    Raises:
        vtpu.errors.UsageError: it is not clear what the batch is; see its message for what to write.
        vtpu.errors.VtpuError: as `vtpu.check`, at the first size.
        Exception: whatever the function raises while it is traced at the first size.
    """
    if most_compiles < 1 or (resolution is not None and resolution < 1):
        raise UsageError("most_compiles and resolution are whole numbers from 1 on.")
    arguments = read_batch(fn, args, kwargs or {}, batch)
    compiling = _Compiling(fn, arguments, on, _Room(margin, limit))
    search = BatchSearch(
        ask=compiling.ask,
        start=arguments.start,
        unit=arguments.step,
        most=most_compiles,
        resolution=resolution,
        room_bytes=lambda: compiling.room.bytes_of(compiling.limit_bytes),
        tiles=compiling.tile_multiple,
        is_unpadded=compiling.is_unpadded,
    )
    search.run()
    return compiling.result(search, most_compiles)


class _Room:
    """How much HBM a program may need: the limit without the margin.

    Raises:
        UsageError: one of them is not understood.
    """

    def __init__(self, margin: str | float, limit: str | int | None) -> None:
        self._limit = None if limit is None else _size(limit, "limit")
        self._share = _share(margin)
        self._margin = 0 if self._share is not None else _size(margin, "margin")

    def limit_of(self, granted: int | None) -> int | None:
        """The limit, where the compiler grants so much."""
        known = [size for size in (self._limit, granted) if size is not None]
        return min(known, default=None)

    def margin_of(self, granted: int | None) -> int:
        """Bytes of the limit to leave free."""
        limit = self.limit_of(granted)
        return self._margin if self._share is None else round(self._share * (limit or 0))

    def bytes_of(self, granted: int | None) -> int | None:
        """What a program may need."""
        limit = self.limit_of(granted)
        return None if limit is None else limit - self.margin_of(granted)


def _share(margin: str | float) -> float | None:
    """The margin as a part of the limit; None where it is a size."""
    match = _SHARE.fullmatch(margin) if isinstance(margin, str) else None
    share = float(match[1]) / 100 if match else margin if isinstance(margin, float) else None
    if share is not None and not 0 <= share < 1:
        raise UsageError(f"margin is a share of HBM below 1, or a size; not {margin!r}.")
    return share


def _size(value: str | float, name: str) -> int:
    try:
        size = parse_bytes(value) if isinstance(value, str) else int(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from error
    if size < 0:
        raise UsageError(f"{name} is a size in bytes, not {value!r}.")
    return size


@dataclass(slots=True)
class _Compiling:
    """Compiles a function at sizes of its batch and keeps what that gave."""

    fn: Any
    arguments: BatchArguments
    on: str | None
    room: _Room
    checks: dict[int, Check] = field(default_factory=dict[int, Check])
    errors: dict[int, str] = field(default_factory=dict[int, str])

    @property
    def limit_bytes(self) -> int | None:
        """HBM that the compiler grants per device."""
        return next((c.limit_bytes for c in self.checks.values() if c.limit_bytes), None)

    def ask(self, batch: int) -> Answer | None:
        """Compiles a size; None when the function does not trace at it."""
        try:
            args, kwargs = self.arguments.at(batch)
            found = check_call(self.fn, args, kwargs, self.on)
        except CompileFailed as failure:
            if not self.checks:
                raise
            self.errors[batch] = str(failure)
            return Answer(fits=False, need_bytes=None)
        except VtpuError:
            raise
        except (
            Exception
        ) as error:  # the user's function raised: at the first size it is theirs to see
            if not self.checks:
                raise
            return self._refused(batch, error)
        self.checks[batch] = found
        return Answer(self._fits(found), found.need_bytes)

    def _refused(self, batch: int, error: Exception) -> Answer | None:
        """The function raised at this size, and did not at the first."""
        if batch % self.arguments.start:
            return None
        if len(self.checks) == 1:
            scales = "; ".join(self.arguments.scales)
            raise UsageError(
                f"The function works with a batch of {self.arguments.start} and raises "
                f"{type(error).__name__} with {batch}. What grows with the batch: {scales}. Is that "
                "all? `batch` may name it, or give `args=lambda size: (...)`."
            ) from error
        self.errors[batch] = f"{type(error).__name__}: {error}"
        return Answer(fits=False, need_bytes=None)

    def _fits(self, found: Check) -> bool:
        room = self.room.bytes_of(found.limit_bytes)
        need = found.need_bytes
        return found.fits and (room is None or need is None or need <= room)

    def _fixed(self) -> frozenset[int] | None:
        """The sizes of dimensions that all programs have; None when there is only one program."""
        found = [dimensions(c.usage.hbm) for c in self.checks.values() if c.usage and c.usage.hbm]
        return reduce(frozenset.intersection, found) if len(found) > 1 else None

    def _padding(self, batch: int, fixed: frozenset[int] | None) -> BatchPadding | None:
        usage = self.checks[batch].usage if batch in self.checks else None
        if fixed is None or usage is None or usage.hbm is None:
            return None
        return batch_padding(usage.hbm, batch, fixed)

    def tile_multiple(self, batch: int) -> int | None:
        """What the batch must be a multiple of to fill the tiles, by the program of a size."""
        padding = self._padding(batch, self._fixed())
        return padding.multiple if padding else None

    def is_unpadded(self, batch: int) -> bool:
        """Whether a size that was compiled fills the tiles."""
        return bool(self._candidate(batch, self._fixed(), None, fits=True).pads_nothing)

    def _candidate(
        self, batch: int, fixed: frozenset[int] | None, slope: int | None, *, fits: bool
    ) -> BatchCandidate:
        found = self.checks.get(batch)
        hbm = found.usage.hbm if found and found.usage and found.need_bytes is not None else None
        padding = self._padding(batch, fixed) if hbm else None
        placed = found.report.memory.assignment.allocations if found and found.report.memory else ()
        kinds = (AllocationKind.OUTPUT, AllocationKind.TEMP)
        taken = [a for a in placed if a.kind in kinds and a.color == MemorySpace.HBM and a.size]
        return BatchCandidate(
            batch=batch,
            fits=fits,
            need_bytes=found.need_bytes if found else None,
            bytes_per_example=slope,
            padding_bytes=sum(i.padding_bytes or 0 for i in hbm.at_peak()) if hbm else None,
            batch_padding_bytes=padding.padding_bytes if padding else None,
            batch_bytes=padding.bytes if padding else None,
            temp_bytes=hbm.by_kind.get(AllocationKind.TEMP, 0) if hbm else None,
            allocated_bytes=allocated_by_a_step(hbm) if hbm else None,
            allocations=len(taken) if hbm else None,
            error=found.error if found else self.errors.get(batch),
        )

    def result(self, search: BatchSearch, most_compiles: int) -> BatchFit:
        """All that was found."""
        fixed = self._fixed()
        slopes = per_example([(b, a.need_bytes) for b, a in search.answers.items()])
        candidates = tuple(
            self._candidate(batch, fixed, slopes.get(batch), fits=answer.fits)
            for batch, answer in sorted(search.answers.items())
        )
        first = next(iter(self.checks.values()))
        return BatchFit(
            name=first.report.origin.name,
            slice=first.slice.name,
            versions=first.report.origin.versions,
            scales=self.arguments.scales,
            step=search.unit,
            limit_bytes=self.room.limit_of(self.limit_bytes),
            margin_bytes=self.room.margin_of(self.limit_bytes),
            most_compiles=most_compiles,
            tile_multiple=self.tile_multiple(search.largest),
            candidates=candidates,
        )
