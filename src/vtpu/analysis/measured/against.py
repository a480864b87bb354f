"""A profile of real hardware beside what the model says of the same programs, by operation and layer.

Programs are matched by name and by the names of their instructions, operations by their name. What is on
one side only stands beside the rest, so that both sides add up to what was predicted and measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.measured.operations import MeasuredOperation, ProgramRuns
from vtpu.analysis.measured.self_times import self_times
from vtpu.analysis.measured.summary import MeasuredProfile
from vtpu.analysis.program.sources import source_of
from vtpu.analysis.timeline.beside import find_beside
from vtpu.analysis.timeline.device_timeline import TimedProgram
from vtpu.analysis.timeline.expansion import expand
from vtpu.analysis.timeline.recorded import timed_program
from vtpu.analysis.timeline.times import Times
from vtpu.chips import UnknownSlice, parse_slice
from vtpu.clock.program_time import ProgramTime
from vtpu.program.modules import Module
from vtpu.program.op_names import layer_of
from vtpu.recording.recording import Recording

_LEAST_COMMON = 0.2  # of the instructions' names: with less, two programs only share a name
_PS = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What one operation or layer takes in one execution on one core: predicted and measured.

    Null on the side that does not have it. `bound` is what the model says bounds it.
    """

    name: str
    predicted_s: float | None
    measured_s: float | None
    category: str = ""
    layer: str = ""
    line: str = ""
    bound: str = ""

    @property
    def difference_s(self) -> float:
        """Measured less predicted; what one side does not have counts as nothing there."""
        return (self.measured_s or 0.0) - (self.predicted_s or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Times of one execution on one core that together are all of it.

    `between_s` is what the measured execution took beside its operations.
    """

    both_predicted_s: float
    both_measured_s: float
    only_predicted_s: float
    only_measured_s: float
    between_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramComparison:
    """A program on both sides. `common` is the share of the profile's operations that the other has.

    `predicted_s` is null where there is no model of it; then operations have no predicted times.
    `operations` and `layers` stand in the order of their differences, the largest first.
    """

    program: str
    number: int
    common: float
    executions: int
    predicted_s: float | None
    measured_s: float
    sums: Sums
    operations: tuple[Difference, ...]
    layers: tuple[Difference, ...]
    without_model: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A profile against a recording. Programs of one side only are named with why."""

    programs: tuple[ProgramComparison, ...]
    only_measured: tuple[str, ...]
    only_recorded: tuple[str, ...]
    notes: tuple[str, ...]


def compare_with_recording(
    profile: MeasuredProfile, recording: Recording, times: Times
) -> Comparison:
    """What differs between a profile and the programs of a recording, whose times `times` gives."""
    recorded = [timed_program(p, times(p)) for p in recording.programs if p.error is None]
    numbers = [p.number for p in recording.programs if p.error is None]
    found: list[ProgramComparison] = []
    only_measured: list[str] = []
    for run in profile.programs:
        operations = [op for op in profile.operations if op.program == run.name]
        match = _match(run, operations, recorded)
        if match is None:
            only_measured.append(run.name)
        else:
            at, common = match
            found.append(_compare(run, operations, recorded[at], numbers[at], common))
    matched = {comparison.program for comparison in found}
    return Comparison(
        programs=tuple(found),
        only_measured=tuple(only_measured),
        only_recorded=tuple(dict.fromkeys(p.name for p in recorded if p.name not in matched)),
        notes=tuple(_notes(found, profile, recording)),
    )


def _match(
    run: ProgramRuns, operations: Sequence[MeasuredOperation], recorded: Sequence[TimedProgram]
) -> tuple[int, float] | None:
    """The recorded program of the same name that has most of the operations."""
    names = {op.name for op in operations}
    best: tuple[int, float] | None = None
    for at, program in enumerate(recorded):
        if program.name != run.name or program.module is None:
            continue
        known = {instruction.name for instruction in program.module.by_id.values()}
        common = len(names & known) / len(names) if names else 0.0
        if best is None or common > best[1]:
            best = at, common
    return best if best and best[1] >= _LEAST_COMMON else None


def _compare(
    run: ProgramRuns,
    operations: Sequence[MeasuredOperation],
    program: TimedProgram,
    number: int,
    common: float,
) -> ProgramComparison:
    executions = len(run.seconds)
    measured = _measured(operations, executions)
    predicted = _predicted(program) if program.module else {}
    rows = [_beside(predicted.get(n), measured.get(n)) for n in {**measured, **predicted}]
    measured_s = sum(run.seconds) / executions
    return ProgramComparison(
        program=run.name,
        number=number,
        common=common,
        executions=run.executions,
        predicted_s=program.time.total.seconds if program.time else None,
        measured_s=measured_s,
        sums=_sums(rows, measured_s),
        operations=_by_difference(rows),
        layers=_by_difference(_by_layer(rows)),
        without_model=len(program.time.without_model) if program.time else 0,
    )


def _measured(operations: Iterable[MeasuredOperation], executions: int) -> dict[str, Difference]:
    """What operations took in one execution on one core."""
    found: dict[str, Difference] = {}
    for op in operations:
        known = found.get(op.name)
        found[op.name] = Difference(
            name=op.name,
            predicted_s=None,
            measured_s=op.self_s / executions + ((known.measured_s or 0.0) if known else 0.0),
            category=op.category,
            layer=op.layer,
            line=op.line,
        )
    return found


def _predicted(program: TimedProgram) -> dict[str, Difference]:
    """What the model says that operations take of the core in one execution."""
    time, module = program.time, program.module
    if time is None or module is None:
        return {}
    found: dict[str, Difference] = {}
    for number, seconds in core_times(time, module).items():
        instruction = module.by_id.get(number)
        if instruction is None:
            continue
        operation = time.operations.get(number)
        found[instruction.name] = Difference(
            name=instruction.name,
            predicted_s=seconds,
            measured_s=None,
            layer=layer_of(source_of(module, instruction).op_name),
            bound=str(operation.bound) if operation and operation.bound else "",
        )
    return found


def core_times(time: ProgramTime, module: Module) -> Mapping[int, float]:
    """How long each instruction keeps the core in one execution, waits included; seconds.

    Operations in a loop or call are not counted again in that.
    """
    occurrences = expand(time, 0, find_beside(module))
    core = occurrences.select(~occurrences.is_async)
    start = np.rint(core.start * _PS).astype(np.int64)
    end = np.rint(core.end * _PS).astype(np.int64)
    found: dict[int, int] = {}
    own = self_times(start, end)
    for number, own_ps in zip(core.instruction.tolist(), own.tolist(), strict=True):
        found[number] = found.get(number, 0) + own_ps
    return {number: own_ps / _PS for number, own_ps in found.items()}


# ---- both sides --------------------------------------------------------------------------------


def _beside(predicted: Difference | None, measured: Difference | None) -> Difference:
    """An operation of one or both sides, with what either says of it."""
    known = measured or predicted
    assert known is not None
    return Difference(
        name=known.name,
        predicted_s=predicted.predicted_s if predicted else None,
        measured_s=measured.measured_s if measured else None,
        category=measured.category if measured else "",
        layer=known.layer or (predicted.layer if predicted else ""),
        line=measured.line if measured else "",
        bound=predicted.bound if predicted else "",
    )


def _by_layer(rows: Iterable[Difference]) -> list[Difference]:
    groups: dict[str, list[Difference]] = {}
    for row in rows:
        groups.setdefault(row.layer, []).append(row)
    return [
        Difference(
            name=layer,
            predicted_s=_sum(group, lambda row: row.predicted_s),
            measured_s=_sum(group, lambda row: row.measured_s),
        )
        for layer, group in groups.items()
    ]


def _sum(rows: Iterable[Difference], of: Callable[[Difference], float | None]) -> float | None:
    known = [value for row in rows if (value := of(row)) is not None]
    return sum(known) if known else None


def _by_difference(rows: Iterable[Difference]) -> tuple[Difference, ...]:
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_s), row.name)))


def _sums(rows: Sequence[Difference], measured_s: float) -> Sums:
    both = [r for r in rows if r.predicted_s is not None and r.measured_s is not None]
    only_predicted = [r.predicted_s or 0.0 for r in rows if r.measured_s is None]
    only_measured = [r.measured_s or 0.0 for r in rows if r.predicted_s is None]
    both_measured = sum(r.measured_s or 0.0 for r in both)
    return Sums(
        both_predicted_s=sum(r.predicted_s or 0.0 for r in both),
        both_measured_s=both_measured,
        only_predicted_s=sum(only_predicted),
        only_measured_s=sum(only_measured),
        between_s=measured_s - both_measured - sum(only_measured),
    )


def _generation(slice_name: str) -> str | None:
    try:
        return parse_slice(slice_name).generation.name
    except UnknownSlice:  # a recording of another release
        return None


def _notes(
    programs: Sequence[ProgramComparison], profile: MeasuredProfile, recording: Recording
) -> Iterable[str]:
    generation = _generation(recording.run.slice)
    if generation and profile.hardware.generation not in (None, generation):
        yield (
            f"the profile is of {profile.hardware.generation} and the recording of {generation}: what "
            "differs may be the chip"
        )
    if not profile.programs:
        yield "the profile has no executions of programs: nothing can be matched"
    elif not programs:
        yield (
            "no program of the profile is in the recording: names and operations differ. Record the "
            "same script, with the same sizes, on the slice that the profile is of"
        )
    for comparison in programs:
        if comparison.common < 1:
            yield (
                f"{comparison.program}: {100 * comparison.common:.0f} % of the profile's operations are "
                "in the recorded program; another release of the compiler made the rest"
            )
        if comparison.predicted_s is None:
            yield f"{comparison.program}: there is no model of its time"
