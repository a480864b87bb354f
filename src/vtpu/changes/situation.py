"""What is known of a program when changes are proposed."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFiles
from vtpu.changes.goal import Goal
from vtpu.changes.source.jit_sites import JitSite
from vtpu.changes.target import FixTarget
from vtpu.chips import Slice
from vtpu.findings.finding import Finding
from vtpu.findings.subjects import ProgramSubject, RunSubject


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentLeaf:
    """An array among the arguments that a function is compiled with.

    `path` is the argument's name with JAX's path: `params['w']`; `argument` its position, or its name.
    `spec` is its partition, one entry for each dimension it names; None where it has no sharding.
    """

    path: str
    argument: int | str
    shape: tuple[int, ...]
    dtype: str
    role: str
    spec: tuple[str | tuple[str, ...] | None, ...] | None = None
    mesh: tuple[tuple[str, int], ...] = ()
    memory_kind: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Situation:
    """A program as it is: the baseline that changes are proposed for.

    `program` is the one that matters: that does not fit, or that makes the steps. `run` holds everything
    that the baseline recorded; of a function only its compile. `site` is where the program's function is
    jitted; None where that was not found. `arguments` are those of a function; empty of a script, of
    which the program's entry parameters tell.
    """

    target: FixTarget
    slice: Slice
    goal: Goal
    program: ProgramSubject
    run: RunSubject
    findings: tuple[Finding, ...]
    files: SourceFiles
    site: JitSite | None
    arguments: tuple[ArgumentLeaf, ...] = ()

    def found(self, *slugs: str) -> tuple[Finding, ...]:
        """The findings of some rules, worst first."""
        return tuple(f for f in self.findings if f.rule in slugs)
