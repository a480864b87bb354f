"""What the operations of a profile took: by operation, with what the profile says of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vtpu.analysis.measured.self_times import Ints, covered, self_times
from vtpu.analysis.program.sources import source_of
from vtpu.analysis.source_lines import UserLines
from vtpu.program.modules import Instruction, Module
from vtpu.program.op_names import layer_of
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.wire import WireError
from vtpu.reading.xplane.space import EventMetadata, Events, Line, Plane, Space

_OPS, _ASYNC, _MODULES, _STEPS = "XLA Ops", "Async XLA Ops", "XLA Modules", "Steps"
_NUMBERED = re.compile(r"\((-?\d+)\)$")
_COLLECTIVE = re.compile(
    r"\b(all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute"
    r"|collective-broadcast|send|recv)\b"
)
_PS = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredOperation:
    """An operation of a program, over all cores and executions of a profile.

    `self_s` is its time without that of operations in it, `async_s` that of the transfer that it stands
    for, beside the core. `flops` and `bytes` are of one run on one core, null where the profile does not
    say. `layer` and `line` are empty where nothing tells them. `collective` is the kind of communication.
    """

    program: str
    name: str
    category: str
    count: int
    self_s: float
    async_s: float = 0.0
    flops: int | None = None
    bytes: int | None = None
    op_name: str = ""
    layer: str = ""
    line: str = ""
    collective: str = ""
    text: str = field(default="", repr=False)

    @property
    def flops_per_s(self) -> float | None:
        """The rate while it ran; null where it cannot be told."""
        return self._rate(self.flops)

    @property
    def bytes_per_s(self) -> float | None:
        """The rate at which it touched memory while it ran."""
        return self._rate(self.bytes)

    def _rate(self, amount: int | None) -> float | None:
        """Null for what only begins a transfer or waits for one: its work is beside it."""
        is_beside = self.category.endswith(("-start", "-done"))
        if not amount or self.self_s <= 0 or is_beside:
            return None
        return amount * self.count / self.self_s


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreTimes:
    """What one core did in the time that the profile covers: from its first program to its last.

    `busy_s` is the time in which a program ran, `operations_s` that in which an operation did.
    """

    name: str
    window_s: float
    busy_s: float
    operations_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRuns:
    """The executions of a program on all cores: how many on each, how long, from begin to begin.

    `seconds` and `periods` are of every core, in order.
    """

    name: str
    executions: int
    seconds: tuple[float, ...]
    periods: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CoreProfile:
    """What one plane tells."""

    times: CoreTimes
    operations: tuple[MeasuredOperation, ...]
    runs: tuple[ProgramRuns, ...]
    steps: tuple[float, ...]


def profile_modules(space: Space) -> Mapping[int, Module]:
    """The modules that a profile holds, by number of their program; damaged ones are left out."""
    plane = space.plane("/host:metadata")
    found: dict[int, Module] = {}
    for number, kind in plane.metadata.items() if plane else ():
        proto = kind.stats.get("Hlo Proto")
        if isinstance(proto, bytes):
            try:
                found[number & (1 << 64) - 1] = read_wrapped_module(proto)
            except WireError:
                continue
    return found


def read_core(plane: Plane, modules: Mapping[int, Module]) -> CoreProfile:
    """What the plane of one core of a TPU tells."""
    ran = plane.line(_MODULES) or Line(id=0, name=_MODULES)
    ops = plane.line(_OPS) or Line(id=0, name=_OPS)
    steps = plane.line(_STEPS)
    begin, end = _reach(ran.events if len(ran.events) else ops.events)
    return CoreProfile(
        times=CoreTimes(
            name=plane.name,
            window_s=(end - begin) / _PS,
            busy_s=covered(ran.events.offset_ps, ran.events.end_ps) / _PS,
            operations_s=covered(*device_times(ops.events)) / _PS,
        ),
        operations=tuple(_operations(plane, ops, ran, modules)),
        runs=tuple(_runs(plane, ran)),
        steps=tuple((steps.events.duration_ps / _PS).tolist()) if steps else (),
    )


def _reach(events: Events) -> tuple[int, int]:
    if not len(events):
        return 0, 0
    return int(events.offset_ps.min()), int(events.end_ps.max())


def device_times(events: Events) -> tuple[Ints, Ints]:
    """Begins and ends of events by the clock of the device, where all have that, as XProf takes them.

    The times of the events themselves are moved to the clock of the host, which stretches some of them.
    """
    columns = {column.name: column for column in events.stats}
    start, duration = columns.get("device_offset_ps"), columns.get("device_duration_ps")
    if not (start and duration and len(start.rows) == len(duration.rows) == len(events)):
        return events.offset_ps, events.end_ps
    begins = start.values.astype(np.int64)
    return begins, begins + duration.values.astype(np.int64)


def plain_name(module: str) -> str:
    """A program's name without the number that a profile adds: `jit_step` of `jit_step(42)`."""
    return _NUMBERED.sub("", module)


def _runs(plane: Plane, ran: Line) -> Iterator[ProgramRuns]:
    events = ran.events
    for number in np.unique(events.metadata).tolist():
        rows = np.flatnonzero(events.metadata == number)
        starts = np.sort(events.offset_ps[rows])
        yield ProgramRuns(
            name=plain_name(_kind(plane, number).name),
            executions=len(rows),
            seconds=tuple((events.duration_ps[rows] / _PS).tolist()),
            periods=tuple((np.diff(starts) / _PS).tolist()),
        )


# ---- operations --------------------------------------------------------------------------------


def _operations(
    plane: Plane, ops: Line, ran: Line, modules: Mapping[int, Module]
) -> Iterator[MeasuredOperation]:
    events = ops.events
    own = self_times(*device_times(events))
    programs = _programs_at(events.offset_ps, ran.events)
    beside = _async_times(plane)
    named = {number: _by_name(module) for number, module in modules.items()}
    pairs, which = np.unique(
        np.stack([programs, events.metadata], axis=1), axis=0, return_inverse=True
    )
    seconds = np.zeros(len(pairs), np.int64)
    np.add.at(seconds, which.ravel(), own)
    counts = np.bincount(which.ravel(), minlength=len(pairs))
    for (program, number), self_ps, count in zip(
        pairs.tolist(), seconds.tolist(), counts.tolist(), strict=True
    ):
        kind = _kind(plane, number)
        ran_name = _kind(plane, program).name if program >= 0 else ""
        module = _module_of(kind, ran_name, modules)
        instruction = named[module].get(kind.short_name) if module is not None else None
        described = _described(kind, modules[module] if module is not None else None, instruction)
        yield replace(
            described,
            program=plain_name(ran_name),
            count=round(count * _passes(kind)),
            self_s=self_ps / _PS,
            async_s=beside.get(kind.short_name, 0.0),
        )


def _passes(kind: EventMetadata) -> float:
    """How many passes of a loop an event stands for, in a profile that vtpu wrote."""
    passes = kind.stats.get("vtpu_passes")
    return float(passes) if isinstance(passes, int | float) and passes > 0 else 1.0


def _programs_at(times: Ints, ran: Events) -> Ints:
    """Which program ran at some times, as the number of its kind; -1 for none."""
    order = np.argsort(ran.offset_ps, kind="stable")
    if not len(order):
        return np.full(len(times), -1)
    at = np.searchsorted(ran.offset_ps[order], times, side="right") - 1
    inside = (at >= 0) & (times <= ran.end_ps[order][np.maximum(at, 0)])
    return np.where(inside, ran.metadata[order][np.maximum(at, 0)], -1)


def _async_times(plane: Plane) -> dict[str, float]:
    """How long transfers beside the core were under way, by the name of what waits for their end."""
    line = plane.line(_ASYNC)
    if line is None:
        return {}
    waiting = line.events.stat("hlo_op")
    found: dict[str, float] = {}
    for row, duration in enumerate(line.events.duration_ps.tolist()):
        own = _kind(plane, int(line.events.metadata[row])).short_name
        name = str(waiting.get(row) or own)
        found[name] = found.get(name, 0.0) + duration / _PS
    return found


def _by_name(module: Module) -> dict[str, Instruction]:
    return {instruction.name: instruction for instruction in module.by_id.values()}


def _module_of(kind: EventMetadata, ran: str, modules: Mapping[int, Module]) -> int | None:
    """The number of the module that an operation is of."""
    number = kind.stats.get("program_id")
    if not isinstance(number, int):
        match = _NUMBERED.search(ran)
        number = int(match[1]) if match else None
    number = None if number is None else number & (1 << 64) - 1
    return number if number in modules else None


def _described(
    kind: EventMetadata, module: Module | None, instruction: Instruction | None
) -> MeasuredOperation:
    """What a profile says of an operation, and its module where it does not. Of no time yet."""
    stats = kind.stats
    op_name = str(stats.get("tf_op") or stats.get("tf_op_name") or "").rstrip(":")
    line = str(stats.get("source") or "")
    if module and instruction and not (op_name and line):
        source = source_of(module, instruction)
        op_name = op_name or source.op_name
        if not line and any(frame.line for frame in source.frames):
            line = str(UserLines().line(source.frames))
    return MeasuredOperation(
        program="",
        name=kind.short_name,
        category=str(stats.get("hlo_category") or ""),
        count=0,
        self_s=0.0,
        flops=_of_one_pass(kind, "model_flops", "flops"),
        bytes=_of_one_pass(kind, "bytes_accessed"),
        op_name=op_name,
        layer=layer_of(op_name),
        line=line,
        collective=collective_in(f"{stats.get('hlo_category')} {kind.name}"),
        text=kind.name,
    )


def _of_one_pass(kind: EventMetadata, *names: str) -> int | None:
    """The first of some amounts that the profile says, of one run."""
    found = (kind.stats.get(name) for name in names)
    amount = next((value for value in found if isinstance(value, int)), None)
    return None if amount is None else round(amount / _passes(kind))


def collective_in(text: str) -> str:
    """The kind of communication that an operation's category or text names; empty for none."""
    match = _COLLECTIVE.search(re.sub(r"-(start|done)\b", "", text))
    return match[1] if match else ""


def _kind(plane: Plane, number: int) -> EventMetadata:
    return plane.metadata.get(number, EventMetadata(name=f"(kind {number})"))


def merged(operations: Sequence[MeasuredOperation]) -> tuple[MeasuredOperation, ...]:
    """The operations of several cores as those of one program, the longest first."""
    groups: dict[tuple[str, str, str], list[MeasuredOperation]] = {}
    for operation in operations:
        key = (operation.program, operation.name, operation.category)
        groups.setdefault(key, []).append(operation)
    found = [_merge(group) for group in groups.values()]
    return tuple(sorted(found, key=lambda o: (-o.self_s, o.program, o.name)))


def _merge(group: list[MeasuredOperation]) -> MeasuredOperation:
    return replace(
        group[0],
        count=sum(o.count for o in group),
        self_s=sum(o.self_s for o in group),
        async_s=sum(o.async_s for o in group),
    )
