"""What became of a test."""

from __future__ import annotations

from dataclasses import dataclass

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
