"""What a rule is: a name, what it looks for, and the functions that look."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from vtpu.findings.finding import Finding
from vtpu.findings.subjects import ProgramSubject, RunSubject


class Group(StrEnum):
    """What rules are about; the first letter begins their codes."""

    MEMORY = "memory"
    TRANSFERS = "transfers"
    COMPILATION = "compilation"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule. Its text is its page in the documentation.

    `code` is a letter of the group and a number that never changes its meaning, `slug` its name.
    `title` says the fault in a few words, `why` what it costs and how it comes about, `change` what to do
    in general, `limits` what the rule does not see or may take for it. `fixes` are kinds of changes that
    `vtpu fix` tries. `in_program` looks at one compiled program, also at each that matters in a run;
    `in_run` at what happened in a run.
    """

    code: str
    slug: str
    group: Group
    title: str
    why: str
    change: str
    limits: str
    fixes: tuple[str, ...] = ()
    in_program: Callable[[ProgramSubject], Iterable[Finding]] | None = None
    in_run: Callable[[RunSubject], Iterable[Finding]] | None = None
