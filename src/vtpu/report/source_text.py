"""Source lines for reports: files by their short names, with the line's text where it can be read."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath

from vtpu.analysis.source_lines import SourceLine
from vtpu.report.document import Line

_LONGEST = 60
_VTPU = Path(__file__).parents[1]
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a run that began in `folder`."""

    folder: str

    def line(self, line: SourceLine) -> Line:
        """A line as people read it."""
        text = linecache.getline(self._path(line.file), line.line).strip() if line.line else ""
        if len(text) > _LONGEST:
            text = text[: _LONGEST - 1] + "…"
        return Line(short_name(line.file, self.folder), line.line, line.function, text)

    def _path(self, file: str) -> str:
        """Where a file is: Python may name it from the folder where it started."""
        beside = os.path.join(self.folder, file)  # noqa: PTH118, of another machine, or no path
        return beside if os.path.exists(beside) else file  # noqa: PTH110


@cache
def short_name(file: str, folder: str) -> str:
    """A file by its name from the run's folder, in its package, or from the home folder."""
    path = PurePath(file)
    if not path.is_absolute():
        return file
    if path.is_relative_to(_VTPU):
        return str(path.relative_to(_VTPU.parent))
    if folder not in ("", "/") and path.is_relative_to(folder):
        inside = path.relative_to(folder)
        if not set(_PACKAGE_FOLDERS) & set(inside.parts[:-1]):
            return str(inside)
    for package_folder in _PACKAGE_FOLDERS:
        if package_folder in path.parts[:-1]:
            at = path.parts.index(package_folder)
            return str(PurePath(*path.parts[at + 1 :]))
    home = os.environ.get("HOME", "")
    if home not in ("", "/") and path.is_relative_to(home):
        return str("~" / path.relative_to(home))
    return file
