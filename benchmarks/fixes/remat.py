"""Every named policy of `jax.checkpoint` around a program's block, beside what the search finds.

The variants are written here, without anything of the search: one line above the block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fixes.commands import workplace
from benchmarks.fixes.searching import Search, search
from benchmarks.fixes.suite import Program

NO_CHECKPOINT = "no checkpoint"
POLICIES = (
    NO_CHECKPOINT,
    "everything_saveable",
    "nothing_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
)
_CHECKPOINTS = {"checkpoint", "checkpoint-policy", "nested-checkpoints"}
_SAME_TIME = 1.005  # as fast, for a comparison: modelled steps are not known any better


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A variant that fits: bytes of HBM against seconds of a step."""

    name: str
    peak_bytes: int
    step_s: float

    def is_as_good_as(self, other: Point) -> bool:
        """Whether it needs no more memory at no more time."""
        is_as_fast = self.step_s <= other.step_s * _SAME_TIME
        return is_as_fast and self.peak_bytes <= other.peak_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The named policies, the search's trials of checkpoints alone, and all its trials."""

    policies: tuple[Point, ...]
    checkpoints: tuple[Point, ...]
    trials: tuple[Point, ...]

    @property
    def beaten_by(self) -> tuple[Point, ...]:
        """Policies that are better than all checkpoints of the search at their time."""
        return tuple(
            p
            for p in pareto(self.policies)
            if not any(c.is_as_good_as(p) for c in self.checkpoints)
        )


def compare(program: Program, within: str) -> Comparison:
    """Tries all policies, then the search.

    Raises:
        CommandFailed: a command wrote no report.
    """
    policies = tuple(_try_policies(program))
    found = search(program, within)
    before = found.before
    as_it_is = _points([(NO_CHECKPOINT, before.peak_bytes, before.step_s)])
    return Comparison(
        policies=policies,
        checkpoints=(*as_it_is, *_trials(found, alone=True)),
        trials=(*as_it_is, *_trials(found, alone=False)),
    )


def pareto(points: Sequence[Point]) -> list[Point]:
    """Those of which no other needs both less memory and less time, fastest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda p: (p.step_s, p.peak_bytes)):
        if not best or point.peak_bytes < best[-1].peak_bytes:
            best.append(point)
    return best


def checkpointed(text: str, block: str, policy: str) -> str:
    """A program's text with a checkpoint of a policy around one of its functions."""
    if policy == NO_CHECKPOINT:
        return text
    line = f"@(lambda f: jax.checkpoint(f, policy=jax.checkpoint_policies.{policy}))"
    changed, count = re.subn(rf"^( *)(def {block}\()", rf"\1{line}\n\1\2", text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{count} functions are called {block}")
    return changed


def _try_policies(program: Program) -> Iterable[Point]:
    file, _, function = program.search.partition(":")
    with workplace(program) as here:
        path = Path(here.folder, file)
        text = path.read_text(encoding="utf-8")
        for policy in POLICIES:
            path.write_text(checkpointed(text, program.block, policy), encoding="utf-8")
            report = here.look(f"{file}:{function or 'step'}", program.slice)
            yield from _points([(policy, _peak(report), _step_s(report))])


def _peak(report: dict[str, Any]) -> int | None:
    return report["need_bytes"] if report["fits"] else None


def _step_s(report: dict[str, Any]) -> float | None:
    return report["time"]["seconds"] if report["time"] else None


def _trials(found: Search, *, alone: bool) -> list[Point]:
    trials = [t for t in found.trials if not alone or set(t.kinds) <= _CHECKPOINTS]
    return _points((t.title, t.figures.peak_bytes, t.figures.step_s) for t in trials)


def _points(given: Iterable[tuple[str, int | None, float | None]]) -> list[Point]:
    return [
        Point(name=name, peak_bytes=peak, step_s=step)
        for name, peak, step in given
        if peak is not None and step is not None
    ]
