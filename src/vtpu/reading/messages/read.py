"""Finds every known message in a text; tells what it did not understand and what is cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vtpu.reading.messages import gpu, hbm_compile, others, runtime, vmem_compile
from vtpu.reading.messages.cleaning import CleanText, clean, is_gap
from vtpu.reading.messages.long_form import find_long_forms
from vtpu.reading.messages.patterns import Found, Message, Pattern, search, surroundings

PATTERNS: tuple[Pattern, ...] = (
    *vmem_compile.PATTERNS,
    *hbm_compile.PATTERNS,
    *runtime.PATTERNS,
    *gpu.PATTERNS,
    *others.PATTERNS,
)


@dataclass(frozen=True, slots=True)
class Messages:
    """What a text says. `unknown`: lines (from 1) that belong to no message, as they stand there.

    `problems`: sentences about what is cut, missing, or does not add up.
    """

    found: tuple[Message, ...]
    unknown: tuple[tuple[int, str], ...]
    problems: tuple[str, ...]


def read_messages(text: str) -> Messages:
    """Every message of templates T1 to T27 in `text`, in the order of the text.

    Lines may have prefixes of loggers, be joined, broken or cut. Never raises.
    """
    cleaned = clean(text)
    found = _without_overlaps(
        [*gpu.find_gpu_reports(cleaned, cleaned.text), *search(cleaned, cleaned.text, PATTERNS)]
    )
    found += others.find_cache_misses(cleaned, cleaned.text)
    rest = _masked(cleaned.text, found)
    found = sorted([*found, *find_long_forms(cleaned, rest)], key=lambda f: f.start)
    problems = [problem for each in found for problem in each.problems]
    return Messages(
        found=tuple(each.message for each in found),
        unknown=_unknown(text, cleaned, found),
        problems=tuple(problems),
    )


def _without_overlaps(found: Iterable[Found]) -> list[Found]:
    """In order; of messages that overlap the one that begins first, or is longer."""
    kept: list[Found] = []
    for each in sorted(found, key=lambda f: (f.start, -f.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


def _masked(text: str, found: Iterable[Found]) -> str:
    """The text with what is understood blanked out; lines and positions stay."""
    pieces: list[str] = []
    at = 0
    for each in sorted(found, key=lambda f: f.start):
        if each.start < at:
            continue
        hidden = text[each.start : each.end]
        blank = "\n".join("\0" * len(line) for line in hidden.split("\n"))
        pieces += [text[at : each.start], blank]
        at = each.end
    return "".join([*pieces, text[at:]])


def _unknown(text: str, cleaned: CleanText, found: Iterable[Found]) -> tuple[tuple[int, str], ...]:
    known: set[int] = set()
    for each in found:
        around = surroundings(cleaned.text, each.start, each.end)
        own = each.spans or ((each.start, each.end),)
        for start, end in (*own, (around.start, each.start), (each.end, around.end)):
            if end > start:
                first, last = cleaned.lines_of(start, end)
                known.update(range(first, last + 1))
    return tuple(
        (number, line.rstrip("\r"))
        for number, line in enumerate(text.split("\n"), start=1)
        if number not in known and cleaned.line(number).strip() and not is_gap(cleaned.line(number))
    )
