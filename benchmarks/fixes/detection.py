"""What is found in a program with faults, and in its clean twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.fixes.commands import workplace
from benchmarks.fixes.suite import Program

_NOTE = "note"


@dataclass(frozen=True, slots=True)
class Told:
    """A finding: its rule, how bad it is, its title."""

    rule: str
    severity: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """`found` and `missed` are planted faults, `more` what else is wrong with the faulty program, `false` what
    is told of the clean one; the last two without notes.
    """

    found: tuple[Told, ...]
    missed: tuple[str, ...]
    more: tuple[Told, ...]
    false: tuple[Told, ...]

    @property
    def is_right(self) -> bool:
        """Whether all planted faults are found, and none in the clean twin."""
        return not self.missed and not self.false


def detect(program: Program) -> Detection:
    """Looks at both twins.

    Raises:
        CommandFailed: a command wrote no report.
    """
    with workplace(program) as here:
        faulty = _told(here.look(program.target, program.slice))
        clean = _told(here.look(program.clean_target, program.slice))
    rules = {told.rule for told in faulty}
    return Detection(
        found=_first_of_each(t for t in faulty if t.rule in program.planted),
        missed=tuple(slug for slug in program.planted if slug not in rules),
        more=tuple(t for t in faulty if t.rule not in program.planted and t.severity != _NOTE),
        false=tuple(t for t in clean if t.severity != _NOTE),
    )


def _told(report: dict[str, Any]) -> list[Told]:
    return [Told(f["rule"], f["severity"], f["title"]) for f in report["findings"]]


def _first_of_each(told: Any) -> tuple[Told, ...]:
    """One finding of each rule, the worst: reports have them in this order."""
    first: dict[str, Told] = {}
    for one in told:
        first.setdefault(one.rule, one)
    return tuple(first.values())
