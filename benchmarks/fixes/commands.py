"""Commands of `vtpu` on a copy of a program's files, and the JSON that they write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fixes.suite import Program

_LAST_LINES = 12


class CommandFailed(Exception):
    """A command wrote no report; the end of what it said instead."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """A folder of its own with a program's files."""

    folder: Path

    def report(self, *command: str) -> dict[str, Any]:
        """What `vtpu COMMAND` reports as JSON.

        Raises:
            CommandFailed: it wrote none.
        """
        file = self.folder / "report.json"
        file.unlink(missing_ok=True)
        name, *arguments = command
        asked = [sys.executable, "-m", "vtpu", name, "--json", str(file), *arguments]
        done = subprocess.run(asked, cwd=self.folder, capture_output=True, text=True, check=False)
        if not file.exists():
            said = (done.stderr or done.stdout).splitlines()[-_LAST_LINES:]
            raise CommandFailed("\n".join((f"vtpu {' '.join(command)}", *said)))
        return json.loads(file.read_text(encoding="utf-8"))

    def look(self, target: str, slice_name: str) -> dict[str, Any]:
        """The report of a function that is checked, `train.py:step`, or of a script that is run."""
        if ":" in target:
            return self.report("check", target, "--on", slice_name)
        return self.report("run", "--on", slice_name, "--values", "zeros", target)


@contextmanager
def workplace(program: Program) -> Iterator[Workplace]:
    """A copy of a program's files, so that nothing is left beside them."""
    with tempfile.TemporaryDirectory() as folder:
        for file in program.folder.glob("*.py"):
            shutil.copy(file, folder)
        yield Workplace(Path(folder))
