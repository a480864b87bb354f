"""What every message has, and patterns that find messages of one template, whole or cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from vtpu.reading.messages.cleaning import CleanText
from vtpu.reading.printed.sizes import PrintedSize, parse_size

#: A whole number in a pattern; more digits than any size has are no number.
INT = r"\d{1,20}"


@dataclass(frozen=True, slots=True)
class Where:
    """A message's template ("T1"), its code ("E1000") where one is printed, its lines from 1.

    `is_cut`: the text ends before the message does.
    """

    template: str
    code: str | None
    lines: tuple[int, int]
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message that was understood. What it does not say, or what was cut, is None."""

    where: Where

    @property
    def template(self) -> str:
        """The template's name: "T1"."""
        return self.where.template

    @property
    def code(self) -> str | None:
        """XLA's code of the error: "E1000"."""
        return self.where.code


@dataclass(frozen=True, slots=True)
class Found:
    """A message, its span in the clean text, and what is wrong with it.

    `spans`: its pieces, where other lines stand between them.
    """

    start: int
    end: int
    message: Message
    problems: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """How messages of one template look; `build` makes a message of a match.

    `words`: one of them is in every message; a text without them is not searched, which is quicker.
    """

    template: str
    regex: re.Pattern[str]
    build: Callable[[re.Match[str], Where], Message]
    words: tuple[str, ...] = ("",)


def cuttable(*pieces: str) -> str:
    """A pattern of pieces in a row of which the last ones may be missing, a space being any space.

    Group `end` is None when something is missing.
    """
    pattern = r"(?P<end>)"
    for piece in reversed(pieces[1:]):
        pattern = rf"(?:\s*{piece}{pattern})?"
    return spaced(pieces[0]) + spaced(pattern)


def spaced(pattern: str) -> str:
    """The pattern with each space matching any white space: lines may be broken anywhere.

    `[ ]` stays a space.
    """
    return re.sub(r"(?<!\[) (?!\])", r"\\s+", pattern)


def pattern(
    template: str,
    build: Callable[[re.Match[str], Where], Message],
    *pieces: str,
    word: str = "",
) -> Pattern:
    """A pattern of pieces, see `cuttable`."""
    return Pattern(template, re.compile(cuttable(*pieces)), build, (word,))


def search(cleaned: CleanText, text: str, patterns: Iterable[Pattern]) -> list[Found]:
    """Every message of these patterns in `text`, which is the clean text or parts of it."""
    found: list[Found] = []
    for each in patterns:
        if not any(word in text for word in each.words):
            continue
        for match in each.regex.finditer(text):
            start, end = match.start(), match.start() + len(match[0].rstrip())
            is_cut = "end" in match.re.groupindex and match["end"] is None
            where = locate(cleaned, each.template, start, end, is_cut=is_cut)
            message = each.build(match, where)
            found.append(Found(start, end, message, cut_problem(message.where)))
    return found


def cut_problem(where: Where) -> tuple[str, ...]:
    """The sentence about a message that ends early, or none."""
    if not where.is_cut:
        return ()
    return (f"line {where.lines[1]}: the message that begins here as {where.template} ends early",)


_CODE_BEFORE = re.compile(r"\b(E\d{4}): ?\w+:\s*(?:[^\n.]{0,200})?\Z")
_CODE_INSIDE = re.compile(r"\b(E\d{4}): ?\w+:")
_PAGE_BEHIND = re.compile(
    r"(?:(?!RESOURCE_EXHAUSTED|E\d{4}:)[^\n]){0,400}\n?\s*See\s+https?://\S*?/error_(\d{4})[^\n]*"
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The code of a message, and how far its code before and the address behind it reach."""

    code: str | None
    start: int
    end: int


def surroundings(text: str, start: int, end: int) -> Surroundings:
    """What stands around a message: `E1000: CompileTimeHbmOom:` and `See https://…/error_1000`."""
    window = max(0, start - 300)
    before = _CODE_BEFORE.search(text[window:start])
    inside = _CODE_INSIDE.search(text, start, end)
    behind = _PAGE_BEHIND.match(text, end)
    code = before[1] if before else inside[1] if inside else f"E{behind[1]}" if behind else None
    return Surroundings(
        code, window + before.start() if before else start, behind.end() if behind else end
    )


def locate(
    cleaned: CleanText, template: str, start: int, end: int, *, is_cut: bool = False
) -> Where:
    """Where a message is, with its code and what belongs to that."""
    around = surroundings(cleaned.text, start, end)
    return Where(template, around.code, cleaned.lines_of(around.start, around.end), is_cut)


def renamed(where: Where, template: str) -> Where:
    """The same place as a message of another template."""
    return replace(where, template=template)


def size_of(match: re.Match[str], name: str) -> PrintedSize | None:
    """Group `name` as a size; None when it is missing."""
    text = match[name]
    return parse_size(text) if text else None


def int_of(match: re.Match[str], name: str) -> int | None:
    """Group `name` as a number; None when it is missing."""
    text = match[name]
    return int(text) if text else None


def text_of(match: re.Match[str], name: str) -> str | None:
    """Group `name` with single spaces; None when it is missing."""
    text = match[name]
    return " ".join(text.split()) if text else None
