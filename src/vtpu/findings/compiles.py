"""What rules about compilations have in common: what compiling again costs, and how bad that is."""

from __future__ import annotations

from collections.abc import Sequence

from vtpu.analysis.run.definitions import definition_of
from vtpu.analysis.run.programs import ProgramSummary
from vtpu.analysis.run.recompiles import Cause, Recompile
from vtpu.analysis.source.functions import argument_name
from vtpu.evidence import Basis
from vtpu.findings.finding import Amount, Cost, Evidence, Severity, count, seconds
from vtpu.findings.subjects import RunSubject
from vtpu.units import counted, format_seconds

_MANY = 4  # compilations that go on and on, and not two or three at the start
_LONG_S = 30.0  # so long to wait once is a nuisance


def because_of(subject: RunSubject, *causes: Cause) -> list[tuple[ProgramSummary, list[Recompile]]]:
    """The functions that were compiled again for one of some causes, and for which compilations it is so."""
    found = [(f, [r for r in again if r.cause in causes]) for f, again in subject.recompiled]
    return [(function, again) for function, again in found if again]


def severity_of(again: Sequence[Recompile], calls: int) -> Severity:
    """High where every second call compiles, for then compiling is what the loop does. What happens once is
    low, or medium where it takes long.
    """
    if len(again) >= _MANY and 2 * len(again) >= calls:
        return Severity.HIGH
    return Severity.MEDIUM if seconds_of(again) >= _LONG_S else Severity.LOW


def seconds_of(again: Sequence[Recompile]) -> float:
    """How long compiling again took, or would without vtpu's cache."""
    return sum(r.seconds for r in again)


def cost_of(again: Sequence[Recompile]) -> Cost:
    """What need not have been compiled, once in a run."""
    return Cost(once=seconds(seconds_of(again), Basis.MEASURED))


def again_text(again: Sequence[Recompile]) -> str:
    """How often and how long: `compiled again 3 times, 1.2 s`."""
    return f"compiled again {counted(len(again), 'time')}, {format_seconds(seconds_of(again))}"


def evidence_of(
    subject: RunSubject, function: ProgramSummary, again: Sequence[Recompile]
) -> tuple[Evidence, ...]:
    """The compilations, each with what was different."""
    first = function.compilations[0]
    rows = (
        Evidence(what="first compiled", amount=_took(first.compile_s), line=first.line),
        *(
            Evidence(
                what=f"again: {'; '.join(differences_of(subject, function, r)) or r.cause}",
                amount=_took(r.compilation.compile_s),
                line=r.compilation.line,
            )
            for r in again
        ),
    )
    return (Evidence(what="calls", amount=count(function.calls)), *rows)


def _took(compile_s: float | None) -> Amount | None:
    return None if compile_s is None else seconds(compile_s, Basis.MEASURED)


def differences_of(subject: RunSubject, function: ProgramSummary, again: Recompile) -> list[str]:
    """What was different, argument by argument: `batch: f32[104,256], before f32[128,256]`."""
    return [
        f"{name_of(subject, function, again, d.argument)}: {d.now}, before {d.before}"
        for d in again.differences
    ]


def name_of(subject: RunSubject, function: ProgramSummary, again: Recompile, argument: str) -> str:
    """The user's name of an argument of which JAX gives the place in the call, where it can be found."""
    number = again.compilation.program
    record = next(p for p in subject.recording.programs if p.number == number)
    defined = definition_of(record)
    file = subject.files.get(defined.file if defined else function.line.file)
    return argument_name(file, function.name.removeprefix("jit_"), argument)


def python_name(program: str) -> str:
    """A function's name as the user wrote it, of the program's: `step` of `jit_step`."""
    name = program.removeprefix("jit_")
    return "a lambda" if name == "_lambda" else f"`{name}`"
