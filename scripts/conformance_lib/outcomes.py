"""What became of a test."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PASSED, FAILED, SKIPPED, CRASHED, TIMED_OUT = "passed", "failed", "skipped", "crashed", "timed out"

#: Outcomes that may be expected of a test.
BAD = (FAILED, CRASHED, TIMED_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One test: `name` is `Class::test`, `file` its file relative to JAX's folder `tests`.

    What happens outside of any test (an import that fails, a crash at exit) has a name in brackets.
    """

    file: str
    name: str
    outcome: str
    seconds: float = 0.0
    message: str = ""

    @property
    def class_name(self) -> str:
        """The test's class."""
        return self.name.partition("::")[0]


def read_outcomes(paths: Iterable[Path]) -> list[Outcome]:
    """The outcomes that runs wrote with `--json`; of a test the last one."""
    found: dict[tuple[str, str], Outcome] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            outcome = Outcome(**json.loads(line))
            found[outcome.file, outcome.name] = outcome
    return list(found.values())
