"""Where an operation comes from: its names and the stack of source lines, as MLIR prints them.

The grammar of a printed location: `unknown`, `"file":line:col[ to [line]:col]`, `"name"(location)`,
`callsite(inner at outer)`, `fused<…>[a, b]`. JAX names operations by nested names and stack frames
by a name directly around a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

#: The file name under which a canonical program's operations stand; the line is their number.
CANONICAL_FILE = "vtpu"

_PLACE = re.compile(r":(\d+):(\d+)(?: to (?:(\d+))?:(\d+))?")


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of a source file in a function. Lines count from 1; columns as MLIR gives them."""

    file: str
    function: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class Location:
    """Names of an operation, outermost first, and its stack, innermost frame first."""

    names: tuple[str, ...] = ()
    frames: tuple[Frame, ...] = ()


def parse_location(text: str) -> Location:
    """The location that MLIR prints as `loc(…)`.

    Raises:
        ValueError: `text` is not of the grammar above.
    """
    if not text.startswith("loc("):
        raise ValueError(f"not a location: {text[:80]!r}")
    try:
        location, at = _read(text, 4)
    except IndexError:
        raise ValueError(f"a location that is cut: {text[:80]!r}") from None
    if text[at:] != ")":
        raise ValueError(f"not a location: {text[:80]!r}")
    if not location.names and location.frames[:1] and location.frames[0].function:
        # Without tracebacks JAX puts an operation's name directly around its file.
        first = replace(location.frames[0], function="")
        return Location((location.frames[0].function,), (first, *location.frames[1:]))
    return location


def _read(text: str, at: int) -> tuple[Location, int]:
    if text[at] == '"':
        return _read_quoted(text, at)
    if text.startswith("unknown", at):
        return Location(), at + len("unknown")
    if text.startswith("callsite(", at):
        inner, at = _read(text, at + len("callsite("))
        outer, at = _read(text, _skip(text, at, " at "))
        return Location(inner.names, inner.frames + outer.frames), _skip(text, at, ")")
    if text.startswith("fused", at):
        return _read_fused(text, at + len("fused"))
    raise ValueError(f"not a location: {text[at : at + 80]!r}")


def _read_quoted(text: str, at: int) -> tuple[Location, int]:
    name, at = read_string(text, at)
    if place := _PLACE.match(text, at):
        line, column = int(place[1]), int(place[2])
        end_line = int(place[3] or line)
        end_column = int(place[4] or column)
        return Location((), (Frame(name, "", line, column, end_line, end_column),)), place.end()
    if text[at] != "(":
        return Location((name,)), at
    is_frame = text[at + 1] == '"' and _PLACE.match(text, read_string(text, at + 1)[1])
    child, at = _read(text, at + 1)
    at = _skip(text, at, ")")
    if not is_frame:
        return Location((name, *child.names), child.frames), at
    place_only = child.frames[0]
    frame = Frame(place_only.file, name, place_only.line, place_only.column,
                  place_only.end_line, place_only.end_column)  # fmt: skip
    return Location((), (frame,)), at


def _read_fused(text: str, at: int) -> tuple[Location, int]:
    """The first of the fused locations that has frames; the others tell the same story."""
    if text[at] == "<":
        at = text.index(">[", at) + 1
    at = _skip(text, at, "[")
    parts: list[Location] = []
    while True:
        part, at = _read(text, at)
        parts.append(part)
        if text[at] == "]":
            break
        at = _skip(text, at, ", ")
    best = next((p for p in parts if p.frames), parts[0])
    return best, at + 1


def _skip(text: str, at: int, expected: str) -> int:
    if not text.startswith(expected, at):
        raise ValueError(f"expected {expected!r}: {text[at : at + 80]!r}")
    return at + len(expected)


def read_string(text: str, start: int) -> tuple[str, int]:
    """The string literal at `text[start]`, unescaped, and the index behind its closing quote."""
    end = start + 1
    while text[end] != '"':
        end += 2 if text[end] == "\\" and text[end + 1] in '"\\' else 1
    return unescape(text[start + 1 : end]), end + 1


_ESCAPE = re.compile(rb'\\(?:(["\\])|([0-9A-Fa-f]{2}))')


def unescape(text: str) -> str:
    r"""The text of an MLIR string literal: `a\\22b` is `a"b`."""
    return unescape_bytes(text).decode(errors="replace") if "\\" in text else text


def unescape_bytes(text: str) -> bytes:
    """The bytes of an MLIR string literal, which need not be text."""
    return _ESCAPE.sub(lambda m: m[1] or bytes([int(m[2], 16)]), text.encode())


def quote(text: str) -> str:
    """`text` as a string literal of MLIR."""
    return '"' + text.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A") + '"'


class SourceStacks(Sequence[tuple[Frame, ...]]):
    """The stack of each operation of a program, parsed when asked for."""

    def __init__(self, locations: tuple[str, ...]) -> None:
        self._locations = locations
        self._parsed: dict[str, tuple[Frame, ...]] = {}

    def __len__(self) -> int:
        return len(self._locations)

    @overload
    def __getitem__(self, index: int) -> tuple[Frame, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[Frame, ...]]: ...
    def __getitem__(self, index: int | slice) -> tuple[Frame, ...] | list[tuple[Frame, ...]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        text = self._locations[index]
        if text not in self._parsed:
            self._parsed[text] = parse_location(text).frames
        return self._parsed[text]
