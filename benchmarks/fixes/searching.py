"""What `vtpu fix` makes of a program: the only place that knows how its report is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.fixes.commands import workplace
from benchmarks.fixes.suite import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Bytes of HBM, and seconds; None where that is not known."""

    peak_bytes: int | None
    step_s: float | None
    compile_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Changes that were tried together."""

    title: str
    kinds: tuple[str, ...]
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search: the program before, the best that was found, and all trials that compiled."""

    before: Figures
    best: Trial | None
    trials: tuple[Trial, ...]
    compiles: int
    wall_s: float

    @property
    def after(self) -> Figures:
        """The best that was found, or the program as it was."""
        return self.best.figures if self.best else self.before

    @property
    def memory_ratio(self) -> float | None:
        """The peak after over that before."""
        return _ratio(self.after.peak_bytes, self.before.peak_bytes)

    @property
    def time_ratio(self) -> float | None:
        """The step's time after over that before; None where it did not fit before."""
        return _ratio(self.after.step_s, self.before.step_s)


def search(program: Program, within: str) -> Search:
    """Asks `vtpu fix` for less memory.

    Raises:
        CommandFailed: it wrote no report.
    """
    with workplace(program) as here:
        asked = (program.search, "--on", program.slice, "--goal", "memory", "--within", within)
        return _read(here.report("fix", *asked))


def _read(report: dict[str, Any]) -> Search:
    trials = {a["number"]: _trial(a) for a in report["attempts"] if a["figures"]}
    return Search(
        before=_figures(report["baseline"]),
        best=trials.get(report["best"]),
        trials=tuple(t for t in trials.values() if t.figures.peak_bytes is not None),
        compiles=report["compiles"],
        wall_s=report["wall_s"],
    )


def _trial(attempt: dict[str, Any]) -> Trial:
    return Trial(
        title=attempt["title"],
        kinds=tuple(change["kind"] for change in attempt["changes"]),
        figures=_figures(attempt["figures"]),
    )


def _figures(figures: dict[str, Any]) -> Figures:
    names = ("peak_bytes", "step_s", "compile_s")
    return Figures(**{name: figures[name] for name in names})


def _ratio(after: float | None, before: float | None) -> float | None:
    return after / before if after is not None and before else None
