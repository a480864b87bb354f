"""The lists of tests that are known to fail, one for each supported release of JAX.

`tests/conformance/jax-<release>.json` maps a file to reasons, and a reason to the tests that fail
for it. A reason begins with its class and may go on behind a colon: `libtpu: no Custom_Partitioner`.
The classes are explained in `tests/conformance/README.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conformance_lib.outcomes import BAD, PASSED, Outcome

FOLDER = Path(__file__).parents[2] / "tests/conformance"

#: The reason of a test that failed for the first time, until somebody has looked at it.
UNSORTED = "unsorted"

_EXPECTED = "expected failure"
_UNEXPECTED_PASS = "unexpected pass"


@dataclass(frozen=True, slots=True)
class ExpectedFailures:
    """`reasons[file][test]` is why a test is known to fail."""

    path: Path
    reasons: dict[str, dict[str, str]]

    def verdict(self, outcome: Outcome) -> str:
        """What to count an outcome as: itself, or what the list makes of it."""
        known = outcome.name in self.reasons.get(outcome.file, {})
        if known and outcome.outcome in BAD:
            return _EXPECTED
        return _UNEXPECTED_PASS if known and outcome.outcome == PASSED else outcome.outcome

    def updated(self, outcomes: Iterable[Outcome], is_whole: bool) -> ExpectedFailures:
        """The list after a run. `is_whole`: the files ran in full, so what is gone is dropped."""
        reasons = {file: dict(tests) for file, tests in self.reasons.items()}
        by_file: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            by_file.setdefault(outcome.file, []).append(outcome)
        for file, ran in by_file.items():
            old = reasons.get(file, {})
            kept = {} if is_whole else dict(old)
            for outcome in ran:
                kept.pop(outcome.name, None)
                if outcome.outcome in BAD:
                    kept[outcome.name] = old.get(outcome.name, UNSORTED)
            reasons[file] = kept
        return ExpectedFailures(self.path, reasons)

    def write(self) -> None:
        """Writes the list, sorted."""
        grouped: dict[str, dict[str, list[str]]] = {}
        for file, tests in sorted(self.reasons.items()):
            by_reason: dict[str, list[str]] = {}
            for name, reason in sorted(tests.items()):
                by_reason.setdefault(reason, []).append(name)
            if by_reason:
                grouped[file] = dict(sorted(by_reason.items()))
        self.path.write_text(json.dumps(grouped, indent=1) + "\n")


def read_expected(release: str) -> ExpectedFailures:
    """The list for a release of JAX (`0.10.2`): of exactly that, else of its minor release."""
    exact = FOLDER / f"jax-{release}.json"
    minor = FOLDER / f"jax-{'.'.join(release.split('.')[:2])}.json"
    path = exact if exact.exists() else minor
    grouped = json.loads(path.read_text()) if path.exists() else {}
    return ExpectedFailures(
        path,
        {
            file: {name: reason for reason, names in reasons.items() for name in names}
            for file, reasons in grouped.items()
        },
    )
