"""A profile in tables: the hardware, steps, what cores did, operations, layers, lines, communication."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vtpu.analysis.measured.hardware import (
    Hardware,
    HardwareKind,
    device_planes,
    find_hardware,
)
from vtpu.analysis.measured.operations import (
    CoreProfile,
    CoreTimes,
    MeasuredOperation,
    ProgramRuns,
    merged,
    profile_modules,
    read_core,
)
from vtpu.analysis.measured.others import read_host, read_other_device
from vtpu.reading.xplane.reading import ReadProfile
from vtpu.reading.xplane.space import Space
from vtpu.units import counted

#: Categories of XLA that hold other operations: their own time is what is between those.
_CONTROL_FLOW = ("while", "conditional", "call")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """How long steps took, over all cores: how many on each, and where they were found.

    `found` says whether the profile marks them or executions of a program stand for them.
    """

    count: int
    found: str
    median_s: float
    least_s: float
    most_s: float
    deviation_s: float
    period_median_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The operations of one layer, or of one line of the program: their own time on all cores."""

    name: str
    self_s: float
    flops: int | None
    operations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """One kind of communication: `exposed_s` is what cores spent in it or waiting for it, `async_s` how
    long it was under way beside them.
    """

    kind: str
    operations: int
    count: int
    exposed_s: float
    async_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredProfile:
    """A profile in tables. Times of operations are sums over all cores and executions.

    `notes` say what the profile does not have, `problems` what of the files could not be read.
    """

    hardware: Hardware
    steps: StepTimes | None
    cores: tuple[CoreTimes, ...]
    programs: tuple[ProgramRuns, ...]
    operations: tuple[MeasuredOperation, ...]
    layers: tuple[Part, ...]
    lines: tuple[Part, ...]
    communication: tuple[Communication, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def operations_s(self) -> float:
        """The own time of all operations, over all cores."""
        return sum(operation.self_s for operation in self.operations)


def summarize_profile(profiles: Sequence[ReadProfile]) -> MeasuredProfile:
    """The tables of the profiles of one run, one of each host."""
    spaces = [profile.space for profile in profiles]
    hardware = find_hardware(spaces)
    cores = [core for space in spaces for core in _cores(space, hardware.kind)]
    operations = merged([op for core in cores for op in core.operations])
    programs = _programs(cores)
    return MeasuredProfile(
        hardware=hardware,
        steps=_steps(cores, programs),
        cores=tuple(c.times for c in cores) if hardware.kind is not HardwareKind.HOST else (),
        programs=programs,
        operations=operations,
        layers=_parts(operations, lambda op: op.layer),
        lines=_parts(operations, lambda op: op.line),
        communication=_communication(operations),
        notes=tuple(_notes(hardware, spaces, operations, programs)),
        problems=tuple(dict.fromkeys(p for profile in profiles for p in profile.problems)),
    )


def _cores(space: Space, kind: HardwareKind) -> list[CoreProfile]:
    planes = device_planes(space, kind)
    if kind is HardwareKind.TPU:
        modules = profile_modules(space)
        return [read_core(plane, modules) for plane in planes]
    return [(read_other_device if kind is HardwareKind.GPU else read_host)(p) for p in planes]


def _programs(cores: Sequence[CoreProfile]) -> tuple[ProgramRuns, ...]:
    """The programs of all cores, the longest in all first."""
    groups: dict[str, list[ProgramRuns]] = {}
    for run in (run for core in cores for run in core.runs):
        groups.setdefault(run.name, []).append(run)
    found = [
        ProgramRuns(
            name=name,
            executions=max(run.executions for run in runs),
            seconds=tuple(s for run in runs for s in run.seconds),
            periods=tuple(s for run in runs for s in run.periods),
        )
        for name, runs in groups.items()
    ]
    return tuple(sorted(found, key=lambda run: -sum(run.seconds)))


def _steps(cores: Sequence[CoreProfile], programs: tuple[ProgramRuns, ...]) -> StepTimes | None:
    """The steps that the profile marks, or the executions of its longest program."""
    marked = [core.steps for core in cores if core.steps]
    if marked:
        return _step_times(
            [s for steps in marked for s in steps],
            max(map(len, marked)),
            "steps of the profile",
            (),
        )
    if not programs:
        return None
    main = programs[0]
    return _step_times(main.seconds, main.executions, f"executions of {main.name}", main.periods)


def _step_times(
    seconds: Sequence[float], count: int, found: str, periods: Sequence[float]
) -> StepTimes:
    return StepTimes(
        count=count,
        found=found,
        median_s=statistics.median(seconds),
        least_s=min(seconds),
        most_s=max(seconds),
        deviation_s=statistics.pstdev(seconds),
        period_median_s=statistics.median(periods) if periods else None,
    )


def _parts(
    operations: Iterable[MeasuredOperation], name_of: Callable[[MeasuredOperation], str]
) -> tuple[Part, ...]:
    """Operations by layer or line, the longest first; those without one have the name `""`."""
    groups: dict[str, list[MeasuredOperation]] = {}
    for operation in operations:
        groups.setdefault(name_of(operation), []).append(operation)
    found = [
        Part(
            name=name,
            self_s=sum(op.self_s for op in group),
            flops=_flops(group),
            operations=len(group),
        )
        for name, group in groups.items()
    ]
    return tuple(sorted(found, key=lambda part: -part.self_s))


def _flops(group: Iterable[MeasuredOperation]) -> int | None:
    """The FLOPs of some operations over all their runs; of control flow those in it count, not its own."""
    known = [
        op.flops * op.count
        for op in group
        if op.flops is not None and op.category not in _CONTROL_FLOW
    ]
    return sum(known) if known else None


def _communication(operations: Iterable[MeasuredOperation]) -> tuple[Communication, ...]:
    groups: dict[str, list[MeasuredOperation]] = {}
    for operation in operations:
        if operation.collective:
            groups.setdefault(operation.collective, []).append(operation)
    found = [
        Communication(
            kind=kind,
            operations=len(group),
            count=sum(op.count for op in group),
            exposed_s=sum(op.self_s for op in group),
            async_s=sum(op.async_s for op in group),
        )
        for kind, group in groups.items()
    ]
    return tuple(sorted(found, key=lambda c: -c.exposed_s))


def _notes(
    hardware: Hardware,
    spaces: Sequence[Space],
    operations: Sequence[MeasuredOperation],
    programs: Sequence[ProgramRuns],
) -> Iterable[str]:
    """What the profile does not have, and what therefore cannot be shown."""
    if not any(space.planes for space in spaces):
        yield "the file has no plane at all: it is empty, or cut before the first one ends"
    elif hardware.kind is HardwareKind.HOST:
        yield (
            "the profile has no plane of a device: only the host was traced, so there are no steps, no "
            "device times and no FLOP rates"
        )
    elif hardware.kind is HardwareKind.GPU:
        yield (
            "the profile is of a GPU: kernels are shown by name; it has no times of XLA's operations on "
            "a TPU, and cannot be compared with a recording"
        )
    else:
        yield from _tpu_notes(hardware, operations, programs)
    yield from (f"the profiler says: {text}" for space in spaces for text in space.errors)


def _tpu_notes(
    hardware: Hardware,
    operations: Sequence[MeasuredOperation],
    programs: Sequence[ProgramRuns],
) -> Iterable[str]:
    if hardware.is_modelled:
        yield "vtpu wrote this profile: its times are modelled, not measured"
    if hardware.name is None:
        yield "the profile does not say which chip it is of"
    elif hardware.generation is None:
        yield f"vtpu does not know the chip {hardware.name!r}: peaks are those that the profile says"
    if not programs:
        yield f"it has no line {'XLA Modules'!r}: executions and steps are not known"
    if not operations:
        yield f"it has no line {'XLA Ops'!r}: operations were not traced"
    unnamed = [op for op in operations if not op.op_name]
    if operations and len(unnamed) == len(operations):
        yield "its operations have no names of JAX: layers are not known"
    elif unnamed:
        share = sum(op.self_s for op in unnamed) / (sum(op.self_s for op in operations) or 1)
        yield (
            f"{counted(len(unnamed), 'operation')} ({100 * share:.1f} % of the time) have no name of "
            "JAX: they are in no layer"
        )
