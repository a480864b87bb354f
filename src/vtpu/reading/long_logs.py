"""The parts of a long log around what looks like a message about memory.

A training log has gigabytes of lines about something else. Lines far from any word of a message are
made empty, so that the others keep their numbers and nothing is searched in vain.
"""

from __future__ import annotations

from vtpu.reading.recognize import MESSAGE_WORDS

_LONG = 4 << 20
_BEFORE = 20  # lines: prefixes of the message, what the program printed last
_BEHIND = 3000  # libtpu's usage report has a line for each slot of each memory


def around_messages(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A text in which lines far from a message are empty, and these lines: first and last, from 1.

    A short text stays whole.
    """
    if len(text) < _LONG:
        return text, ()
    data = text.encode(errors="replace")
    kept = _windows(data)
    pieces: list[bytes] = []
    skipped: list[tuple[int, int]] = []
    at, line = 0, 1
    for start, end in [*kept, (len(data), len(data))]:
        empty = data.count(b"\n", at, start)
        if empty:
            skipped.append((line, line + empty - 1))
        pieces += [b"\n" * empty, data[start:end]]
        line += empty + data.count(b"\n", start, end)
        at = end
    return b"".join(pieces).decode(errors="replace"), tuple(skipped)


def _windows(data: bytes) -> list[tuple[int, int]]:
    """Spans of whole lines to keep, in order."""
    windows: list[tuple[int, int]] = []
    at = 0
    while match := MESSAGE_WORDS.search(data, at):
        start, end = _up(data, match.start(), _BEFORE), _down(data, match.end(), _BEHIND)
        if windows and start <= windows[-1][1]:
            start = windows.pop()[0]
        windows.append((start, end))
        at = max(match.end(), end)
        if last := _last_sign(data, match.end(), end):  # a message at the window's end goes on
            windows[-1] = (start, _down(data, last, _BEHIND))
            at = windows[-1][1]
    return windows


def _last_sign(data: bytes, start: int, end: int) -> int:
    """Where the last word of a message in a span ends; 0 when there is none."""
    return max((m.end() for m in MESSAGE_WORDS.finditer(data, start, end)), default=0)


def _up(data: bytes, at: int, lines: int) -> int:
    """The begin of the line so many lines before."""
    for _ in range(lines + 1):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _down(data: bytes, at: int, lines: int) -> int:
    """Behind the end of the line so many lines later."""
    for _ in range(lines + 1):
        found = data.find(b"\n", at)
        if found < 0:
            return len(data)
        at = found + 1
    return at
