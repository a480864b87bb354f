"""How bad a fault is that makes steps longer."""

from __future__ import annotations

from vtpu.analysis.run.time import StepSummary
from vtpu.findings.finding import Severity
from vtpu.findings.subjects import ProgramSubject, RunSubject

# A modelled step is off by about 5 % (docs/accuracy.md): what is not well above that is a note.
_FROM = ((0.35, Severity.HIGH), (0.20, Severity.MEDIUM), (0.10, Severity.LOW))
_TINY_S = 1e-4  # whoever runs so short a program waits for its dispatch
_SHORT_S = 1e-3
_FEWEST_CALLS = 3  # what runs less often is no step
_FEWEST_STEPS = 2
_LEAST_ARGUMENTS = 1 << 16  # bytes: what takes less makes arrays, as `jnp.ones`, and is no step


def of_time(seconds: float, subject: ProgramSubject) -> Severity:
    """The severity of `seconds` in every execution of a program.

    By their share of it, in a run of all that the devices do. A program that takes next to no time has no
    fault that matters, and one that is not executed repeatedly none that matters much.
    """
    step = subject.step_s
    if not step:
        return Severity.NOTE
    weight = 1.0 if subject.of_run is None else subject.of_run
    return min(_by_share(seconds * weight / step), most_severe(step, subject.calls))


def most_severe(step_s: float, calls: int | None) -> Severity:
    """The most that a fault may be of what takes `step_s` and is executed `calls` times, if known."""
    if step_s < _TINY_S:
        return Severity.NOTE
    if calls is not None and calls < _FEWEST_CALLS:
        return Severity.LOW
    return Severity.MEDIUM if step_s < _SHORT_S else Severity.HIGH


def steps_of(subject: RunSubject) -> StepSummary | None:
    """The steps of a run, where they are ones: they keep the device for a noticeable time, and repeat.

    None of a paced run too: what its host waited for is in its own times.
    """
    time = subject.summary.time
    step = time.step if time and not time.is_paced else None
    if step is None or step.steps.busy_s < _TINY_S or step.steps.count < _FEWEST_STEPS:
        return None
    programs = subject.recording.programs
    program = next(p for p in programs if p.number == step.steps.program)
    takes = program.argument_bytes + program.host_argument_bytes
    return step if takes >= _LEAST_ARGUMENTS else None


def of_idle_device(seconds: float, step: StepSummary) -> Severity:
    """The severity of `seconds` in which a device has nothing to do between two executions of a run.

    Where the time of a program is not known, or a part of it, the device may be less idle.
    """
    steps = step.steps
    most = most_severe(steps.busy_s, steps.count)
    if step.is_lower_bound:
        most = min(most, Severity.LOW)
    return min(_by_share(seconds / steps.mean_s if steps.mean_s else 0.0), most)


def _by_share(share: float) -> Severity:
    return next((severity for least, severity in _FROM if share >= least), Severity.NOTE)
