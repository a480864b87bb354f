"""Measures programs, proposes changes for them, and measures them with a change, as `vtpu fix` does."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vtpu.changes.change import Change, NotApplicable
from vtpu.changes.edits import render_files
from vtpu.changes.goal import Goal
from vtpu.changes.outcome import Figures, Results
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.target import read_target
from vtpu.fixing.baseline import measure_baseline
from vtpu.fixing.processes import Processes
from vtpu.fixing.results import compare_results
from vtpu.fixing.verification import Variant, Verifier

PROGRAMS = Path(__file__).parent / "programs"
_LIMIT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """A program, measured. `before` is what it needs."""

    before: Figures
    situation: Situation
    verifier: Verifier

    def proposed(self, proposal: Proposal) -> list[Change]:
        """The changes of a kind that are proposed."""
        return [c for c in proposal.propose(self.situation) if isinstance(c, Change)]

    def refused(self, proposal: Proposal) -> str:
        """Why no changes, or no more of them, are."""
        found = proposal.propose(self.situation)
        return "; ".join(c.reason for c in found if isinstance(c, NotApplicable))

    def text(self, changes: Sequence[Change]) -> str:
        """The program with changes."""
        return next(iter(self._texts(changes).values()))

    def measured(self, *changes: Change) -> Figures:
        """What the program needs with changes; it has to compile and run."""
        __tracebackhide__ = True
        figures = self.verifier.measure(Variant(texts=self._texts(changes)), _LIMIT_S).figures
        assert figures.error is None
        return figures

    def compared(self, *changes: Change) -> Results:
        """How the results with changes compare with those without, both computed on this machine."""
        processes = Processes()
        variants = {1: Variant(texts=self._texts(changes))}
        try:
            found = compare_results(
                variants, self.situation.target, self.situation, processes, _LIMIT_S
            )
        finally:
            processes.stop()
        return found[1].results

    def _texts(self, changes: Sequence[Change]) -> dict[str, str]:
        edits = [e for c in changes for e in c.edits]
        files = {e.file: self.situation.files.get(e.file) for e in edits}
        return render_files({name: f.text for name, f in files.items() if f}, edits)


@contextmanager
def tried(
    program: str | Path,
    folder: Path,
    on: str = "v5e:1x1",
    *,
    function: str = "",
    goal: Goal | None = None,
) -> Generator[Trials]:
    """Trials of a program, a text or a file of `programs`: of a script, or of its `function`."""
    path = folder / "prog.py"
    if isinstance(program, Path):
        shutil.copy(program, path)
    else:
        path.write_text(program)
    target = read_target(f"prog.py:{function}" if function else "prog.py", str(folder))
    processes = Processes()
    verifier = Verifier(target, on, processes)
    try:
        baseline = measure_baseline(target, on, goal, verifier, _LIMIT_S)
        yield Trials(before=baseline.figures, situation=baseline.situation, verifier=verifier)
    finally:
        processes.stop()
        verifier.close()
