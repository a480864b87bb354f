"""What vtpu finds in programs with planted faults, and what `vtpu fix` makes of them.

python -m benchmarks.fixes [--only NAME ...] [--json FILE] [--within 10m] [--findings | --remat]

`--findings` looks for faults only. `--remat` tries JAX's named checkpoint policies one by one on the programs
that are marked for it, beside what the search finds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.fixes.bars import Outcome, bars, memory_ratio
from benchmarks.fixes.commands import CommandFailed
from benchmarks.fixes.detection import Detection, detect
from benchmarks.fixes.remat import compare
from benchmarks.fixes.searching import Search, search
from benchmarks.fixes.suite import Program, load_programs
from benchmarks.fixes.table import bar_lines, outcome_lines, remat_lines

_SCHEMA = "vtpu.benchmarks.fixes/1"


def main() -> None:
    """The command. Exit code 0: all bars hold. 1: one does not."""
    given = _arguments()
    programs = load_programs(given.only)
    sys.exit(_compare_remat(programs, given) if given.remat else _measure(programs, given))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixes", description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="a program")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--within", default="10m", metavar="TIME", help="of each search")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--findings", action="store_true", help="look for faults only")
    kind.add_argument("--remat", action="store_true", help="try checkpoint policies exhaustively")
    return parser.parse_args()


def _measure(programs: Sequence[Program], given: argparse.Namespace) -> int:
    outcomes: list[Outcome] = []
    for program in programs:
        outcomes.append(_outcome(program, None if given.findings else given.within))
        print(f"{program.name} is done", file=sys.stderr, flush=True)
    reached = bars(outcomes)
    print(*outcome_lines(outcomes), *bar_lines(reached), sep="\n")
    if given.json:
        _write(given.json, outcomes)
    return not all(bar.holds for bar in reached)


def _outcome(program: Program, within: str | None) -> Outcome:
    """What comes of a program; a search only with a time for it. What fails is told with the others."""
    detection: Detection | None = None
    found: Search | None = None
    try:
        detection = detect(program)
        found = search(program, within) if within else None
    except CommandFailed as failed:
        return Outcome(program=program, detection=detection, error=str(failed))
    return Outcome(program=program, detection=detection, search=found)


def _write(file: Path, outcomes: Sequence[Outcome]) -> None:
    value: dict[str, Any] = {
        "schema": _SCHEMA,
        "programs": [asdict(outcome) for outcome in outcomes],
        "memory_ratio": memory_ratio(outcomes),
        "bars": [asdict(bar) for bar in bars(outcomes)],
    }
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _compare_remat(programs: Sequence[Program], given: argparse.Namespace) -> int:
    is_worse = False
    for program in programs:
        if program.block:
            comparison = compare(program, given.within)
            print(*remat_lines(program, comparison), sep="\n", flush=True)
            is_worse |= bool(comparison.beaten_by)
    return is_worse


if __name__ == "__main__":
    main()
