"""All that there is to say of a program's modelled time, for a report to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vtpu.analysis.source_lines import SourceLine, UserLines
from vtpu.analysis.time.accounting import Timelines, account_of
from vtpu.analysis.time.critical_path import critical_path_of
from vtpu.analysis.time.retiming import Retimed, step_without
from vtpu.analysis.time.rows import OperationRow, TimeGroup, grouped, rows_of
from vtpu.clock.program_time import ProgramTime
from vtpu.clock.resources import Resource
from vtpu.program.modules import Module
from vtpu.program.op_names import Phase

_NOT_REMOVED = (None, Resource.COMPILER)
_REST = "optimizer and the rest"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The step if a resource were infinitely fast: its seconds, and what would bound it then."""

    resource: Resource
    seconds: float
    next_bound: Resource | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """Collectives of one kind that come from one line.

    `alone_s` is how long they are on the links, `exposed_s` how long the core waits for them.
    """

    kind: str
    line: SourceLine
    runs: float
    alone_s: float
    exposed_s: float
    link_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """An operation on the critical path, and for how long. `is_beside`: it ran beside the core."""

    row: OperationRow
    seconds: float
    is_beside: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmodelled:
    """Operations without a model: they are not in the step's time. Shares are of the whole program's."""

    rows: tuple[OperationRow, ...]
    flops: int
    hbm_bytes: int
    flops_share: float | None
    hbm_share: float | None
    has_unknown_flops: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeReport:
    """One execution of a program. Seconds of `rows` with `idle_s` sum to those of `time.total`.

    `bounds` is the step's time by what bounds it. `uncounted_loops` are those of which nothing tells how
    often they run: they count once. `model_flops` leave out what is recomputed.
    """

    time: ProgramTime
    rows: tuple[OperationRow, ...]
    idle_s: float
    bounds: Mapping[Resource | None, float]
    what_ifs: tuple[WhatIf, ...]
    layers: tuple[TimeGroup, ...]
    phases: tuple[TimeGroup, ...]
    kinds: tuple[TimeGroup, ...]
    communications: tuple[Communication, ...]
    path: tuple[PathStep, ...]
    path_idle_s: float
    unmodelled: Unmodelled
    uncounted_loops: tuple[str, ...]
    model_flops: int

    @property
    def seconds(self) -> float:
        """The step's time."""
        return self.time.total.seconds

    @property
    def bound(self) -> Resource | None:
        """What bounds most of the step."""
        return max(self.bounds, key=lambda r: self.bounds[r], default=None)

    @property
    def mfu(self) -> float | None:
        """Model FLOPs over those that the chip could do in the step: what is recomputed does not count."""
        return self._of_peak(self.model_flops)

    @property
    def hfu(self) -> float | None:
        """All FLOPs of operations with a time over those that the chip could do in the step."""
        return self._of_peak(self.time.flops - self.time.unmodelled_flops)

    @property
    def hbm_utilisation(self) -> float | None:
        """Bytes of operations with a time over those that HBM could move in the step."""
        whole = self.seconds * self.time.hbm_bytes_per_s
        return (self.time.hbm_bytes - self.time.unmodelled_bytes) / whole if whole else None

    @property
    def exposed_s(self) -> float:
        """How long the core waits for collectives."""
        return sum(c.exposed_s for c in self.communications)

    def _of_peak(self, flops: int) -> float | None:
        whole = self.seconds * self.time.peak_flops_per_s
        return flops / whole if whole else None


def report_time(module: Module, time: ProgramTime, lines: UserLines | None = None) -> TimeReport:
    """What a program's time is made of. `lines` tells which lines are the user's."""
    timelines = Timelines(module, time)
    account = account_of(time, timelines)
    rows = rows_of(module, time, account, lines or UserLines())
    now = step_without(module, time, timelines, None)
    path, idle = _path(time, timelines, rows)
    is_training = any(r.phase is Phase.BACKWARD for r in rows)
    return TimeReport(
        time=time,
        rows=rows,
        idle_s=account.idle_s,
        bounds=dict(sorted(now.bounds.items(), key=lambda b: -b[1])),
        what_ifs=_what_ifs(module, time, timelines, now),
        layers=grouped(rows, lambda r: r.layer),
        phases=grouped(rows, lambda r: _phase(r, is_training=is_training)),
        kinds=grouped(rows, lambda r: r.kind),
        communications=_communications(rows),
        path=path,
        path_idle_s=idle,
        unmodelled=_unmodelled(time, rows),
        uncounted_loops=tuple(module.by_id[i].name for i in time.uncounted_loops),
        model_flops=sum(r.flops or 0 for r in rows if r.phase is not Phase.RECOMPUTED),
    )


def _phase(row: OperationRow, *, is_training: bool) -> str:
    return _REST if row.phase is Phase.OTHER and is_training else str(row.phase)


def _what_ifs(
    module: Module, time: ProgramTime, timelines: Timelines, now: Retimed
) -> tuple[WhatIf, ...]:
    """For each resource that bounds a part of the step, what is gained most first."""
    scale = time.total.seconds / now.seconds if now.seconds else 0.0
    found: list[WhatIf] = []
    for resource in now.bounds:
        if resource is not None and resource not in _NOT_REMOVED:
            without = step_without(module, time, timelines, resource)
            bound = max(without.bounds, key=lambda r: without.bounds[r], default=None)
            found.append(WhatIf(resource, without.seconds * scale, bound))
    return tuple(sorted(found, key=lambda w: w.seconds))


def _communications(rows: tuple[OperationRow, ...]) -> tuple[Communication, ...]:
    together: dict[tuple[str, SourceLine], list[OperationRow]] = {}
    for row in rows:
        if row.is_communication:
            together.setdefault((row.kind, row.line), []).append(row)
    found = [
        Communication(
            kind=kind,
            line=line,
            runs=sum(r.time.runs for r in members),
            alone_s=sum(r.alone_s or 0.0 for r in members),
            exposed_s=sum(r.seconds for r in members),
            link_bytes=sum(r.link_bytes for r in members),
        )
        for (kind, line), members in together.items()
    ]
    return tuple(sorted(found, key=lambda c: (-c.exposed_s, -c.alone_s)))


def _path(
    time: ProgramTime, timelines: Timelines, rows: tuple[OperationRow, ...]
) -> tuple[tuple[PathStep, ...], float]:
    found = critical_path_of(time, timelines)
    by_id = {r.instruction.id: r for r in rows}
    steps = [
        PathStep(row=by_id[number], seconds=seconds, is_beside=is_beside)
        for part, is_beside in ((found.core, False), (found.beside, True))
        for number, seconds in part.items()
        if number in by_id
    ]
    return tuple(sorted(steps, key=lambda s: -s.seconds)), found.idle_s


def _unmodelled(time: ProgramTime, rows: tuple[OperationRow, ...]) -> Unmodelled:
    without = set(time.without_model)
    found = tuple(r for r in rows if r.instruction.id in without)
    return Unmodelled(
        rows=found,
        flops=time.unmodelled_flops,
        hbm_bytes=time.unmodelled_bytes,
        flops_share=time.unmodelled_flops / time.flops if time.flops else None,
        hbm_share=time.unmodelled_bytes / time.hbm_bytes if time.hbm_bytes else None,
        has_unknown_flops=any(r.flops is None for r in found),
    )
