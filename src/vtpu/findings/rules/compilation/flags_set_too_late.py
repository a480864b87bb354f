"""Flags and settings in the environment that came when they had been read already."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.source.environment import line_of_import, line_that_sets
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.findings.finding import Evidence, Finding, Severity
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import quoted


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding for each variable."""
    end = subject.recording.end
    for variable, value in end.late_settings.items() if end else ():
        yield _finding(subject, variable, value)


def _finding(subject: RunSubject, variable: str, value: str) -> Finding:
    line = _where_set(subject, variable)
    return Finding(
        rule=RULE.slug,
        severity=Severity.LOW,
        title=f"{variable} was set too late: {quoted(value)} has no effect",
        change=_change(subject, variable, line),
        evidence=(
            Evidence(what=f"{variable} when the program ended", text=value or "(empty)", line=line),
            Evidence(what="it is read", text=_when_read(variable)),
        ),
        line=line,
    )


def _change(subject: RunSubject, variable: str, line: SourceLine) -> str:
    file = subject.files.get(line.file) if line.line else None
    imported = line_of_import(file, "jax") if file else None
    where = f"above `import jax` in line {imported}" if imported else "before JAX is imported"
    option = (
        f', or use `jax.config.update("{variable.lower()}", …)`' if _is_of_jax(variable) else ""
    )
    return f"set {variable} {where}, or in the shell that starts the program{option}"


def _when_read(variable: str) -> str:
    return "when JAX is imported" if _is_of_jax(variable) else "when JAX makes its backend: at the first array or `jax.devices()`"  # fmt: skip


def _is_of_jax(variable: str) -> bool:
    return variable.startswith("JAX_")


def _where_set(subject: RunSubject, variable: str) -> SourceLine:
    """The line, in one of the files that the run's stacks go through."""
    names = dict.fromkeys(f.file for stack in subject.recording.stacks for f in stack)
    for name in names:
        file = subject.files.get(name) if not subject.lines.is_library(name) else None
        number = line_that_sets(file, variable) if file else None
        if number:
            return SourceLine(name, number, "")
    return UNKNOWN_LINE


RULE = Rule(
    code="C310",
    slug="flags-set-too-late",
    group=Group.COMPILATION,
    title="Flags in the environment were set when they had been read already",
    why="libtpu reads LIBTPU_INIT_ARGS and XLA its XLA_FLAGS once, when JAX makes its backend; JAX reads its own "
    "variables (JAX_ENABLE_X64, JAX_PLATFORMS) when it is imported. What is set later is ignored, and nobody "
    "says so.",
    change="Set them in the shell, or at the top of the program, above `import jax`.",
    limits="Seen in a run that ended by itself, by comparing the environment at its end with that when the backend "
    "was made, and JAX's variables with JAX's options: one that is set for a child process, or that "
    "`jax.config.update` overrode, is reported too. What it costs that a flag has no effect is not known.",
    fixes=("flags",),
    in_run=find,
)
