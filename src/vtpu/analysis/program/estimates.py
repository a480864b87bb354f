"""What simple changes of a program would do to its memory: estimates, not results of a compile.

Each change makes some pieces of memory smaller, and the curve over program order is added up again.
What the compiler would do otherwise then (another schedule, other fusions, another packing) is not
known: the holes in its heap are taken to stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.memory import MemoryItem, MemoryUsage, SpaceUsage
from vtpu.program.element_types import ElementType
from vtpu.program.memory import AllocationKind, ProgramMemory
from vtpu.program.shapes import ArrayShape
from vtpu.units import format_bytes

#: What saves less of the need helps nobody.
_LEAST_SHARE = 0.001
_ACTIVATIONS = (Role.FORWARD, Role.RECOMPUTED, Role.TEMP)
_STATE = (Role.PARAMETER, Role.OPTIMIZER, Role.KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A change and what the program would need with it.

    `count`: pieces of memory that change. `fits` is None where no limit is known. `assumes`: what
    the estimate rests on.
    """

    change: str
    need_bytes: int
    saved_bytes: int
    count: int
    fits: bool | None
    assumes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Changes that would help, best first; sentences about those that would not, or cannot be told."""

    found: tuple[Estimate, ...]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """A change: new sizes of items of HBM by their positions, and what it rests on."""

    name: str
    smaller: Mapping[int, int]
    assumes: str


def estimate_changes(memory: ProgramMemory, usage: MemoryUsage) -> Estimates:
    """What halving the batch, donating, and half precision would do to HBM."""
    hbm = usage.hbm
    if hbm is None:
        return Estimates(found=(), others=())
    tried = (
        _half_batch(hbm),
        _donate(memory, hbm),
        _bfloat16("activations", hbm, _activations(hbm)),
        _bfloat16("optimizer state", hbm, _optimizer(hbm)),
    )
    found = [_estimate(c, hbm, memory.limit_bytes) for c in tried if isinstance(c, _Change)]
    least = hbm.total_bytes * _LEAST_SHARE
    helpful = sorted((e for e in found if e.saved_bytes > least), key=lambda e: e.need_bytes)
    useless = (_useless(e) for e in found if e.saved_bytes <= least)
    others = (*(c for c in tried if isinstance(c, str)), *useless)
    return Estimates(found=tuple(helpful), others=others)


def _useless(estimate: Estimate) -> str:
    if estimate.saved_bytes <= 0:
        return f"{estimate.change}: the peak would stay as it is"
    return f"{estimate.change}: would save no more than {format_bytes(estimate.saved_bytes)}"


def _estimate(change: _Change, hbm: SpaceUsage, limit: int | None) -> Estimate:
    difference = np.zeros(len(hbm.live) + 1, np.int64)
    for number, size in change.smaller.items():
        item = hbm.items[number]
        difference[item.occupant.start] += size - item.bytes
        difference[item.occupant.end + 1] -= size - item.bytes
    live = hbm.live + np.cumsum(difference)[:-1]
    need = int(live.max()) + hbm.free_at_peak_bytes
    return Estimate(
        change=change.name,
        need_bytes=need,
        saved_bytes=hbm.total_bytes - need,
        count=len(change.smaller),
        fits=None if limit is None else need <= limit,
        assumes=change.assumes,
    )


# ---- half the batch ----------------------------------------------------------------------------


def _half_batch(hbm: SpaceUsage) -> _Change | str:
    arguments = [i for i in hbm.items if i.role is Role.BATCH and i.shape and i.shape.dims]
    if not arguments:
        return "half the batch: no argument is recognised as the batch by its name"
    sizes = {shape.dims[0] for i in arguments if (shape := i.shape)}
    sizes = {size for size in sizes if size > 1 and size % 2 == 0}
    if not sizes:
        return "half the batch: no batch argument has an even leading dimension"
    scaling = sizes | {n for i in arguments if i.shape for n in _merged(i.shape.dims, sizes)}
    state = {i.shape.dims for i in hbm.items if i.role in _STATE and i.shape}
    smaller = {
        number: size
        for number, item in enumerate(hbm.items)
        if item.role not in _STATE and item.shape and item.shape.dims not in state
        and (size := _halved(item, item.shape, scaling)) < item.bytes
    }  # fmt: skip
    names = " or ".join(f"{size:,}" for size in sorted(sizes))
    assumes = (
        f"what scales are arrays with a dimension of {names} (the leading dimension of "
        f"{_names(arguments)}, per device), alone or merged with those behind it, and not the shape "
        "of a parameter; padding is counted again"
    )
    return _Change("half the batch", smaller, assumes)


def _merged(dims: tuple[int, ...], sizes: set[int]) -> Iterable[int]:
    """The leading dimension merged with the next ones, as reshapes do: 32 x 128, 32 x 128 x 64."""
    if dims[0] in sizes:
        product = dims[0]
        for dim in dims[1:]:
            product *= dim
            yield product


def _halved(item: MemoryItem, shape: ArrayShape, scaling: set[int]) -> int:
    """Bytes of an item with half the batch: those of its first dimension that scales."""
    at = next((n for n, dim in enumerate(shape.dims) if dim in scaling), None)
    if at is None:
        return item.bytes
    dims = (*shape.dims[:at], shape.dims[at] // 2, *shape.dims[at + 1 :])
    saved = shape.padded_bytes - replace(shape, dims=dims).padded_bytes
    return max(0, item.bytes - max(0, saved))


def _names(items: list[MemoryItem], most: int = 3) -> str:
    names = [f"`{i.name}`" for i in items]
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


# ---- donation ----------------------------------------------------------------------------------


def _donate(memory: ProgramMemory, hbm: SpaceUsage) -> _Change | str:
    reused = {alias.parameter for alias in memory.module.aliases}
    allocations = {a.index: a for a in memory.assignment.allocations}
    free: Counter[tuple[ArrayShape, int]] = Counter()
    names: dict[tuple[ArrayShape, int], list[str]] = {}
    for item in _sorted_for_donation(hbm.items):
        allocation = allocations[item.occupant.allocation]
        is_free = not allocation.is_live_out and allocation.parameter not in reused
        if item.occupant.kind is AllocationKind.ARGUMENT and is_free and item.shape:
            free[item.shape, item.bytes] += 1
            names.setdefault((item.shape, item.bytes), []).append(item.name)
    smaller: dict[int, int] = {}
    donated: list[str] = []
    for number, item in enumerate(hbm.items):
        key = (item.shape, item.bytes) if item.shape else None
        if item.role is Role.OUTPUT and key and free[key]:
            free[key] -= 1
            donated.append(names[key].pop(0))
            smaller[number] = 0
    if not smaller:
        return (
            "donation: no argument that is not donated has the shape of a result that needs memory"
        )
    shown = ", ".join(f"`{name}`" for name in donated[:3])
    more = f" and {len(donated) - 3} more" if len(donated) > 3 else ""
    if len(donated) == 1:
        assumes = (
            f"{shown} has the shape, type and padded bytes of a result, which can take its memory "
            "(donate_argnums); the caller must not use it again"
        )
    else:
        assumes = (
            f"{shown}{more} have the shape, type and padded bytes of as many results, so these can "
            "take their memory (donate_argnums); the caller must not use them again"
        )
    return _Change("donate arguments", smaller, assumes)


def _sorted_for_donation(items: tuple[MemoryItem, ...]) -> list[MemoryItem]:
    """State first: a batch is rarely given away."""
    return sorted(items, key=lambda i: i.role in (Role.BATCH, Role.KEY))


# ---- half precision ----------------------------------------------------------------------------


def _activations(hbm: SpaceUsage) -> list[int]:
    return [n for n, i in enumerate(hbm.items) if i.role in _ACTIVATIONS]


def _optimizer(hbm: SpaceUsage) -> list[int]:
    """Optimizer state, and as many results of the same shape, which are its new values."""
    state = [n for n, i in enumerate(hbm.items) if i.role is Role.OPTIMIZER]
    shapes = Counter(hbm.items[n].shape for n in state)
    chosen = list(state)
    for number, item in enumerate(hbm.items):
        if item.role is Role.OUTPUT and shapes[item.shape] > 0:
            shapes[item.shape] -= 1
            chosen.append(number)
    return chosen


def _bfloat16(what: str, hbm: SpaceUsage, numbers: list[int]) -> _Change | str:
    smaller = {
        n: hbm.items[n].bytes - shape.padded_bytes // 2
        for n in numbers
        if (shape := hbm.items[n].shape) and shape.element_type is ElementType.F32
        and 0 < shape.padded_bytes <= hbm.items[n].bytes
    }  # fmt: skip
    if not smaller:
        return f"{what} in bfloat16: none in float32 {'are' if what.endswith('s') else 'is'} recognised"
    assumes = "what is float32 of it takes half the bytes; everything else keeps its type"
    return _Change(f"{what} in bfloat16", smaller, assumes)
