"""The time of a run on the slice: its steps, what they wait for, and what is not known about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isinf

import numpy as np

from vtpu.analysis.run.calls import knows_host_time
from vtpu.analysis.run.step_batch import StepBatch, find_batch
from vtpu.analysis.run.step_time import BoundBy, Steps, find_steps, program_of_steps
from vtpu.analysis.run.utilisation import Utilisation, utilisation_of
from vtpu.analysis.run.virtual_clock import VirtualRun, run_on_clock
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.analysis.time.programs import Durations, ProgramTimes
from vtpu.clock.program_time import Estimate
from vtpu.recording.events import EventKind, of_kind
from vtpu.recording.recording import ProgramRecord, Recording

_NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """Steps of one program, and the line that calls it.

    `low_s` and `high_s`: the median step with every program at the low and at the high end of its time.
    `is_lower_bound`: programs are in it without a time, or with operations without one. `is_input_bound`: the device waits for its input
    more than for anything else. Rates are null where the batch is not known, `tokens_per_s` also where it
    does not consist of tokens; `utilisation` where the program's time is not the model's.
    """

    program: str
    line: SourceLine
    low_s: float
    high_s: float
    is_lower_bound: bool
    is_input_bound: bool
    steps: Steps
    batch: StepBatch | None
    examples_per_s: float | None
    tokens_per_s: float | None
    utilisation: Utilisation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSummary:
    """A run on the virtual clock.

    `host_speed` is null for a host that takes no time. `step` is null when there is none, and `why_no_step` says why. `total_s` is how long the run would
    have taken on the slice from its first call on, compiling apart; null when host times are unknown.
    `compile_s` is what compiling took here. `untimed_executions` are those of `untimed_programs`, which
    count as no time; of `partly_timed_programs` operations have none, or a loop counts once, because
    nothing tells how often it runs (`vtpu check` says which). `untimed_bytes` crossed a link to the host whose rate is not known.
    `asked_ahead`: copies to the host for which the program did not wait at once. `is_paced`: the program
    really waited for the slice, which is in its times as time in which the host was blocked.
    `untimed_copies` went from device to device, and count as no time.
    """

    host_speed: float | None
    is_paced: bool
    step: StepSummary | None
    why_no_step: str | None
    total_s: float | None
    compile_s: float
    executions: int
    untimed_executions: int
    untimed_programs: tuple[str, ...]
    partly_timed_programs: tuple[str, ...]
    untimed_bytes: int
    untimed_copies: int
    asked_ahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How the time of a run is told: the speed of the slice's host, relative to this machine, and how long
    programs take; by default what the cost model says of each.
    """

    host_speed: float = 1.0
    durations: Durations | None = None


def summarize_time(recording: Recording, lines: LineFinder, timing: Timing) -> TimeSummary:
    """The time of a run on the slice."""
    host_speed, durations = timing.host_speed, timing.durations or ProgramTimes(recording)
    compiles = of_kind(recording.events, EventKind.COMPILE)
    compile_s = float(np.maximum(0, compiles["host_ns"]).sum()) / _NS
    if not knows_host_time(recording):
        return _unknown(recording, compile_s, host_speed)
    run = run_on_clock(recording, durations, host_speed)
    step = _summarize_step(recording, lines, run, durations)
    untimed = np.isin(run.executions["program"], list(run.unknown))
    names = {p.number: p.name for p in recording.programs}
    return TimeSummary(
        host_speed=None if isinf(host_speed) else host_speed,
        is_paced=recording.run.is_paced,
        step=None if isinstance(step, str) else step,
        why_no_step=step if isinstance(step, str) else None,
        total_s=_total_s(run),
        compile_s=compile_s,
        executions=len(run.executions),
        untimed_executions=int(untimed.sum()),
        untimed_programs=tuple(sorted({names.get(p, "?") for p in run.unknown})),
        partly_timed_programs=_partly_timed(run, durations, names),
        untimed_bytes=run.untimed_bytes,
        untimed_copies=run.between_devices,
        asked_ahead=run.asked_ahead,
    )


def _unknown(recording: Recording, compile_s: float, host_speed: float) -> TimeSummary:
    """Of a recording that does not say what the host did."""
    executions = len(of_kind(recording.events, EventKind.EXECUTE))
    why = "the recording is of an older version, which did not note the host's time"
    return TimeSummary(
        host_speed=None if isinf(host_speed) else host_speed,
        is_paced=recording.run.is_paced,
        step=None,
        why_no_step=why if executions else "no program was executed",
        total_s=None,
        compile_s=compile_s,
        executions=executions,
        untimed_executions=0,
        untimed_programs=(),
        partly_timed_programs=(),
        untimed_bytes=0,
        untimed_copies=0,
        asked_ahead=0,
    )


def _total_s(run: VirtualRun) -> float:
    columns = (run.executions, run.stretches, run.transfers)
    begins = [c["begin_ns"].min() for c in columns if len(c)]
    ends = [c["end_ns"].max() for c in columns if len(c)]
    return float(max(ends, default=0) - min(begins, default=0)) / _NS


def _summarize_step(
    recording: Recording, lines: LineFinder, run: VirtualRun, durations: Durations
) -> StepSummary | str:
    """The steps of a run, or why there are none."""
    number = program_of_steps(run, recording.programs)
    if isinstance(number, str):
        return number
    steps = find_steps(recording, run, number)
    # on the clock a slower program may cover more of the host's time: the band holds the step in any case
    low_s, *_, high_s = sorted((*_band(recording, run, durations, steps), steps.median_s))
    mine = run.on_device(run.devices_of(number)[0])
    mine = mine[mine["program"] == number]
    program = next(p for p in recording.programs if p.number == number)
    batch = _batch(recording, program, mine["event"])
    return StepSummary(
        program=program.name,
        line=lines.line(int(recording.events["stack"][mine["event"][-1]])),
        low_s=low_s,
        high_s=high_s,
        is_lower_bound=_is_lower_bound(run, durations, _programs_in_steps(mine, run)),
        is_input_bound=steps.bound_by in (BoundBy.HOST_BLOCKED, BoundBy.INPUT_TRANSFER),
        steps=steps,
        batch=batch,
        examples_per_s=_rate(batch.examples if batch else None, steps),
        tokens_per_s=_rate(batch.tokens if batch else None, steps),
        utilisation=_utilisation(durations, steps),
    )


def _is_lower_bound(run: VirtualRun, durations: Durations, programs: list[int]) -> bool:
    """Whether a program of a step has no time, or its time leaves something out."""
    return bool(run.unknown & set(programs)) or any(_leaves_out(durations, p) for p in programs)


def _leaves_out(durations: Durations, program: int) -> bool:
    """Whether the model of a program leaves out operations, or counts a loop once."""
    time = durations.of(program) if isinstance(durations, ProgramTimes) else None
    return time is not None and time.is_lower_bound


def _partly_timed(
    run: VirtualRun, durations: Durations, names: Mapping[int, str]
) -> tuple[str, ...]:
    programs = np.unique(run.executions["program"]).tolist()
    return tuple(sorted({names.get(p, "?") for p in programs if _leaves_out(durations, p)}))


def _utilisation(durations: Durations, steps: Steps) -> Utilisation | None:
    if not isinstance(durations, ProgramTimes):
        return None
    return utilisation_of(durations, steps.program, steps.median_s)


def _programs_in_steps(mine: np.ndarray, run: VirtualRun) -> list[int]:
    """What is executed from the first step to the last."""
    events = run.executions["event"]
    inside = (events >= mine["event"][0]) & (events <= mine["event"][-1])
    return np.unique(run.executions["program"][inside]).tolist()


def _band(
    recording: Recording, run: VirtualRun, durations: Durations, steps: Steps
) -> tuple[float, float]:
    """The median step when all programs are as fast, and as slow, as they may be."""

    def median(end: Callable[[Estimate], float]) -> float:
        def at_end(program: int) -> Estimate | None:
            time = durations(program)
            return Estimate(end(time), end(time), end(time)) if time else None

        other = run_on_clock(recording, at_end, run.host_speed)
        return find_steps(recording, other, steps.program).median_s

    times = [time for p in np.unique(run.executions["program"]) if (time := durations(int(p)))]
    if all(time.low == time.seconds == time.high for time in times):
        return steps.median_s, steps.median_s
    return median(lambda time: time.low), median(lambda time: time.high)


def _batch(recording: Recording, program: ProgramRecord, events: np.ndarray) -> StepBatch | None:
    """The batch of the last step that is whole."""
    return find_batch(recording, program, int(events[-2]), int(events[-1]))


def _rate(amount: int | None, steps: Steps) -> float | None:
    return amount / steps.median_s if amount and steps.median_s else None
