"""What the suite prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.fixes.bars import Bar, Outcome
from benchmarks.fixes.remat import Comparison, Point, pareto
from benchmarks.fixes.suite import Program

_HEAD = ("program", "slice", "found", "missed", "false", "peak", "step", "compiles", "wall")
_WIDTHS = (19, 9, 6, 7, 6, 22, 24, 9, 8)


def outcome_lines(outcomes: Sequence[Outcome]) -> list[str]:
    """The table, then by program what needs words."""
    return [
        _row(_HEAD),
        *map(_outcome_row, outcomes),
        "",
        *(line for o in outcomes for line in _words(o)),
    ]


def _row(cells: Iterable[str]) -> str:
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def _outcome_row(outcome: Outcome) -> str:
    return _row(
        (outcome.program.name, outcome.program.slice, *_detected(outcome), *_searched(outcome))
    )


def _detected(outcome: Outcome) -> tuple[str, str, str]:
    d = outcome.detection
    if d is None:
        return "-", "-", "-"
    planted = len(outcome.program.planted)
    return f"{len(d.found)}/{planted}", str(len(d.missed)), str(len(d.false))


def _searched(outcome: Outcome) -> tuple[str, str, str, str]:
    s = outcome.search
    if s is None:
        return "-", "-", "-", "-"
    peak = f"{_gib(s.before.peak_bytes)} → {_gib(s.after.peak_bytes)} GiB"
    step = f"{_ms(s.before.step_s)} → {_ms(s.after.step_s)} ms"
    return peak, step, str(s.compiles), f"{s.wall_s:.0f} s"


def _words(outcome: Outcome) -> list[str]:
    name = outcome.program.name
    lines = [f"{name}: {outcome.error}"] if outcome.error else []
    if (d := outcome.detection) is not None:
        lines += [f"{name}: missed {slug}: {outcome.program.planted[slug]}" for slug in d.missed]
        lines += [f"{name}: false, {t.severity} {t.rule}: {t.title}" for t in d.false]
        lines += [f"{name}: also, {t.severity} {t.rule}: {t.title}" for t in d.more]
    if (s := outcome.search) is not None:
        lines.append(f"{name}: best: {s.best.title if s.best else 'nothing helped'}")
    return lines


def bar_lines(bars: Sequence[Bar]) -> list[str]:
    """Each bar, and whether it holds."""
    return ["", *(f"{'holds' if b.holds else 'FAILS':6} {b.what}: {b.reached}" for b in bars)]


def remat_lines(program: Program, comparison: Comparison) -> list[str]:
    """The policies of one program beside what the search found."""
    best = pareto(comparison.policies)
    lines = [f"{program.name}: jax.checkpoint around {program.block}, each policy"]
    lines += [_point(p, "*" if p in best else "") for p in comparison.policies]
    lines += [
        "  what the search found with checkpoints alone",
        *map(_point, pareto(comparison.checkpoints)),
    ]
    lines += ["  what it found with everything", *map(_point, pareto(comparison.trials))]
    worse = [f"FAILS  the search has nothing as good as {p.name}" for p in comparison.beaten_by]
    return [*lines, *(worse or ["holds  the search is nowhere worse at the same time"]), ""]


def _point(point: Point, mark: str = "") -> str:
    return f"  {_gib(point.peak_bytes):>7} GiB {_ms(point.step_s):>8} ms {mark:1} {point.name}"


def _gib(size: int | None) -> str:
    return "?" if size is None else f"{size / 2**30:.2f}"


def _ms(seconds: float | None) -> str:
    return "?" if seconds is None else f"{seconds * 1e3:.1f}"
