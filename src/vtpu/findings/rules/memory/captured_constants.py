"""Large arrays that a program has as constants, because the function took them from outside."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.constants import LargeConstant, large_constants
from vtpu.analysis.source.captured import captured_names
from vtpu.analysis.source_lines import UserLines
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.units import counted, format_bytes


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all large constants of a program."""
    lines = subject.report.lines or UserLines()
    constants = large_constants(subject.module, lines) if subject.module else ()
    if not constants:
        return
    size = sum(c.bytes for c in constants)
    names = _names(subject, constants)
    severity = of_hbm(size, subject.report.need_bytes, subject.limit_bytes)
    yield Finding(
        rule=RULE.slug,
        severity=severity if names else min(severity, Severity.LOW),
        title=_title(subject, constants, names, size),
        change=_change(subject, constants, names),
        evidence=(*_evidence(constants), *_of_the_program(subject)),
        cost=Cost(hbm=hbm_bytes(size)),
        line=constants[0].line,
        program=subject.name,
    )


def _names(subject: ProgramSubject, constants: tuple[LargeConstant, ...]) -> tuple[str, ...]:
    """The user's names of what was captured, as far as the source tells."""
    found: list[str] = []
    for line in dict.fromkeys(c.line for c in constants if c.line.line):
        if file := subject.files.get(line.file):
            found += captured_names(file, line.line)
    return tuple(dict.fromkeys(found))


def _title(
    subject: ProgramSubject, constants: tuple[LargeConstant, ...], names: tuple[str, ...], size: int
) -> str:
    what = (
        f"the constant {constants[0].dims_text}"
        if len(constants) == 1
        else counted(len(constants), "large constant")
    )
    of = f" ({', '.join(names)})" if names else ""
    return f"{what}{of} of {format_bytes(size)} is part of {subject.name} instead of an argument"


def _change(
    subject: ProgramSubject, constants: tuple[LargeConstant, ...], names: tuple[str, ...]
) -> str:
    function = constants[0].line.function or subject.name.removeprefix("jit_")
    what = " and ".join(names) if names else "the array"
    return f"give {function} {what} as an argument: the program shrinks, and other values need no new compile"


def _evidence(constants: tuple[LargeConstant, ...]) -> list[Evidence]:
    return [
        Evidence(what=f"constant {c.dims_text}", amount=hbm_bytes(c.bytes), line=c.line)
        for c in constants[:_MOST]
    ]


def _of_the_program(subject: ProgramSubject) -> Iterable[Evidence]:
    memory, origin = subject.report.memory, subject.report.origin
    if memory and memory.stats:
        code = hbm_bytes(memory.stats.generated_code_bytes)
        yield Evidence(what="generated code, constants included", amount=code)
    if origin.compile_s is not None:
        took = seconds(origin.compile_s, Basis.MEASURED)
        yield Evidence(what="compile", amount=took)


_MOST = 5

RULE = Rule(
    code="M150",
    slug="captured-constants",
    group=Group.MEMORY,
    title="Large constants are captured in the program instead of passed to it",
    why="A function that JAX traces takes NumPy arrays from outside as constants: they become part of the "
    "program. They are sent to the compiler and stored with every executable, they stay in HBM as long as "
    "the program is loaded, once for each program that captures them, and other values mean another program.",
    change="Pass the array as an argument of the jitted function; close over small values only.",
    limits="The name is read from the source line that uses the constant and may be missing. A constant "
    "that the compiler computed itself is seen too; without a captured name it is at most low. JAX arrays "
    "that recent JAX passes as hidden arguments are no constants and are not seen.",
    in_program=find,
)
