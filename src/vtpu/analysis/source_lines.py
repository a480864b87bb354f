"""Which line of a stack is the user's.

The innermost frame that is not in a library. A file is a library's when it lies below one of the
folders where Python keeps those, or below vtpu. When all of a stack is installed (as with
`python -m package.train`), the package of its outermost installed frame counts as the user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import Protocol, TypeVar

from vtpu.recording.recording import Recording

_NEVER_THE_PROGRAM = ("jax", "jaxlib")
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True, order=True)
class SourceLine:
    """A line of the user's program. `file` is as Python names it; line 0: not known."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


UNKNOWN_LINE = SourceLine("(no Python frame)", 0, "")


class FrameLike(Protocol):
    """A frame of a recorded stack or of a module's operation."""

    @property
    def file(self) -> str:
        """The file, as Python names it."""
        ...

    @property
    def function(self) -> str:
        """The function's name."""
        ...

    @property
    def line(self) -> int:
        """The line, from 1."""
        ...


_Frame = TypeVar("_Frame", bound=FrameLike)


class UserLines:
    """Finds the user's line of a stack. `library_folders`: files below them are not the user's."""

    def __init__(self, library_folders: Iterable[str] = ()) -> None:
        self._roots = tuple(library_folders)

    def line(self, stack: Sequence[FrameLike]) -> SourceLine:
        """The user's line of a stack, innermost frame first; `UNKNOWN_LINE` for an empty one."""
        if not stack:
            return UNKNOWN_LINE
        own = self._own_package(stack)
        for frame in stack:
            if not self._is_library(frame.file, own):
                return _line(frame)
        return _line(stack[-1])

    def frames(self, stack: Sequence[FrameLike]) -> tuple[SourceLine, ...]:
        """All of the user's lines of a stack, innermost first."""
        return tuple(_line(frame) for frame in self.own_frames(stack))

    def is_library(self, file: str) -> bool:
        """Whether a file is a library's, of a program that is not installed itself."""
        return self._is_library(file, "")

    def own_frames(self, stack: Sequence[_Frame]) -> tuple[_Frame, ...]:
        """The frames of a stack that are in the user's files, innermost first."""
        own = self._own_package(stack)
        return tuple(frame for frame in stack if not self._is_library(frame.file, own))

    def _own_package(self, stack: Sequence[FrameLike]) -> str:
        """The installed package that is the program itself, or none."""
        if any(not self._is_library(frame.file, "") for frame in stack):
            return ""  # the program is not installed: what is, is a library
        packages = (_installed_package(frame.file) for frame in reversed(stack))
        return next((p for p in packages if p and p not in _NEVER_THE_PROGRAM), "")

    def _is_library(self, file: str, own_package: str) -> bool:
        if own_package and _installed_package(file) == own_package:
            return False
        if file.startswith("<frozen"):
            return True
        return _is_below(file, self._roots) or bool(_installed_package(file))


class LineFinder:
    """Finds the user's line of the stacks of one recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._lines = UserLines(recording.run.library_folders)
        self._known: dict[int, SourceLine] = {}

    def line(self, stack_number: int) -> SourceLine:
        """The user's line of a stack; `UNKNOWN_LINE` for none."""
        if stack_number not in self._known:
            self._known[stack_number] = self._lines.line(self._recording.stack(stack_number))
        return self._known[stack_number]

    def frames(self, stack_number: int) -> tuple[SourceLine, ...]:
        """All of the user's lines of a stack, innermost first."""
        return self._lines.frames(self._recording.stack(stack_number))

    def is_library(self, file: str) -> bool:
        """Whether a file is not the user's."""
        return self._lines.is_library(file)


def _line(frame: FrameLike) -> SourceLine:
    return SourceLine(frame.file, frame.line, frame.function)


@cache
def _is_below(file: str, roots: tuple[str, ...]) -> bool:
    return any(file == root or file.startswith(root.rstrip("/") + "/") for root in roots)


@cache
def _installed_package(file: str) -> str:
    """The top-level package of an installed file: `flax` of `…/site-packages/flax/nnx/x.py`."""
    parts: Iterable[str] = PurePath(file).parts
    names = list(parts)
    for folder in _PACKAGE_FOLDERS:
        if folder in names[:-1]:
            return names[names.index(folder) + 1].removesuffix(".py")
    return ""
