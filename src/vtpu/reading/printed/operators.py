"""The operator of a buffer as messages print it: `op_type=".." op_name=".." source_file=".." …`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT = {
    key: re.compile(rf'\b{key}="((?:[^"\\]|\\.)*)("?)')
    for key in ("op_type", "op_name", "source_file")
}
_NUMBER = {key: re.compile(rf"\b{key}=(\d{{1,18}})") for key in ("source_line", "stack_frame_id")}


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of the user's program. `stack_frame_id`: index into the module's stack frames."""

    op_type: str | None
    op_name: str | None
    source_file: str | None
    source_line: int | None
    stack_frame_id: int | None

    @property
    def source(self) -> str | None:
        """`file:line`, the file alone, or None."""
        if self.source_file is None or self.source_line is None:
            return self.source_file
        return f"{self.source_file}:{self.source_line}"


def parse_operator(text: str) -> Operator:
    """The operator that is printed as `text`, which may be cut."""
    return Operator(
        _quoted(text, "op_type"),
        _quoted(text, "op_name"),
        _quoted(text, "source_file"),
        _numbered(text, "source_line"),
        _numbered(text, "stack_frame_id"),
    )


def _quoted(text: str, key: str) -> str | None:
    match = _TEXT[key].search(text)
    return match[1] if match else None


def _numbered(text: str, key: str) -> int | None:
    match = _NUMBER[key].search(text)
    return int(match[1]) if match else None
