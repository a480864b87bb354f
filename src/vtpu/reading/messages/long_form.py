"""XLA:TPU's long message, put together from its fields in the order of the text.

Fields are found wherever they stand, so lines may be joined, broken, prefixed or left out. A field
that cannot belong to the message that is open begins another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.reading.messages.cleaning import CleanText, is_gap
from vtpu.reading.messages.long_form_drafts import (
    BlockDraft,
    Draft,
    EntryDraft,
    is_decimal,
    number_in,
    size_in,
)
from vtpu.reading.messages.long_form_messages import finish
from vtpu.reading.messages.patterns import Found, cuttable, size_of, spaced
from vtpu.reading.messages.tables import Output, Part, Usage
from vtpu.reading.printed.shapes import array_shape
from vtpu.reading.printed.sizes import SIZE, PrintedSize, parse_size
from vtpu.reading.text_dumps.usage_report import read_spaces

_KEYS = "Operator|Shape|Unpadded size|Extra memory due to padding|Tag|XLA label|Allocation type"
_NAMES = "reserved|program|arguments|global|scoped|HLO temp|overlays|stack|spill"
_TOTAL_PARTS = {"reserved", "program", "arguments"}

_HEADER = re.compile(
    cuttable(
        r"Ran out of memory in memory space (?!\w+ whil)",
        r"(?P<space>\w+)\.",
        rf"Used (?P<used>{SIZE}) of (?P<capacity>{SIZE}) \w+\.",
        rf"Exceeded \w+ capacity by (?P<over>{SIZE})\.",
    )
    + spaced(r"(?: HLO module: (?P<module>\S+?)\.(?=\s|$))?(?: Memory usage report:)?")
)
_TOKENS = {
    "header": _HEADER,
    "total": re.compile(
        spaced(rf"Total (?P<space>[a-z]\w*) usage >= (?:(?P<total>{SIZE}|unknown size):?)?")
    ),
    "requirement": re.compile(
        spaced(rf"Program (?P<space>[a-z]\w*) requirement(?: (?P<total>{SIZE}|unknown size))?:?")
    ),
    "part": re.compile(
        spaced(rf"(?<![\w.=/%-])(?P<name>{_NAMES}) (?P<size>{SIZE}|unknown size)")
        + r"(?P<note>\s*\((?=[\d.]+%)(?:[^()]{1,80}|\([^()]{0,40}\)){0,16}\)?)?"
    ),
    "output": re.compile(
        spaced(
            rf"Output size (?:unknown\.?|(?P<size>{SIZE})(?: \((?P<percent>[\d.]{{1,9}})% utilization\))?"
            rf"(?:; shares (?P<shares>{SIZE}) with arguments\.?)?)"
        )
    ),
    "largest": re.compile(spaced(r"Largest program allocations in (?P<space>\w+):?")),
    "entry": re.compile(spaced(rf"(?<![\w.])(?P<number>\d{{1,4}})\. Size:(?: (?P<size>{SIZE}))?")),
    "field": re.compile(rf"(?<!\w)(?P<key>{_KEYS}):"),
    "separator": re.compile(r"={10,}"),
    "usage": re.compile(
        spaced(
            rf"XLA::TPU program (?P<space>\w+) usage: (?P<used>{SIZE})(?: / (?P<capacity>{SIZE}))?"
            r"(?: \(\d+ parameters\))?"
        )
    ),
    "module": re.compile(spaced(r"XLA::TPU module name: (?P<module>\S+)")),
    "space": re.compile(r"Memory Space: [^\n]{0,80}\(color="),
}
_NOTE = re.compile(
    spaced(
        r"\(\s*(?P<utilization>[\d.]{1,9})% utilization"
        rf"(?:: Unpadded \((?P<unpadded>{SIZE})\) Padded \((?P<padded>{SIZE})\))?"
        rf"(?:, (?P<percent>-?[\d.]{{1,9}})% fragmentation \((?P<fragmentation>-?{SIZE})\))?"
    )
)
_FITTING_FILE = "deepsea_compiler_backend"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    start: int
    end: int
    match: re.Match[str]


def find_long_forms(cleaned: CleanText, text: str) -> list[Found]:
    """Every long message in `text`, which is the clean text or parts of it."""
    reader = _Reader(cleaned, text)
    for token in _tokens(text):
        reader.take(token)
    return reader.finish()


def _tokens(text: str) -> Iterator[_Token]:
    """All tokens in order; one that begins inside of another is none."""
    found = [
        _Token(kind, *match.span(), match)
        for kind, regex in _TOKENS.items()
        for match in regex.finditer(text)
    ]
    found.sort(key=lambda token: (token.start, -token.end))
    end = 0
    for token in found:
        if token.start >= end:
            end = token.end
            yield token


class _Reader:
    """Puts tokens together to messages."""

    def __init__(self, cleaned: CleanText, text: str) -> None:
        self._cleaned, self._text = cleaned, text
        self._drafts: list[Draft] = []
        self._read_to = 0

    def take(self, token: _Token) -> None:
        """Adds a token to the open message or begins one."""
        if token.start < self._read_to:
            return  # within a value or a usage report that was read already
        handler = getattr(self, f"_take_{token.kind}")
        end = handler(token)
        if end is not None:
            self._draft.end = self._read_to = max(end, token.end)
            self._draft.spans.append((token.start, self._read_to))

    def finish(self) -> list[Found]:
        """The messages."""
        return [finish(self._cleaned, self._text, draft) for draft in self._drafts]

    @property
    def _draft(self) -> Draft:
        return self._drafts[-1]

    def _begin(self, token: _Token) -> Draft:
        self._drafts.append(Draft(token.start, token.end))
        return self._draft

    def _current(self, token: _Token, *, is_new: bool) -> Draft:
        """The message that is open; another one if there is none or the token cannot belong to it."""
        return self._begin(token) if is_new or not self._drafts else self._draft

    def _is_interrupted(self, token: _Token) -> bool:
        """Whether lines that are not the message's stand before the token."""
        between = self._text[self._draft.end : token.start].split("\n")[1:-1]
        return any(line.strip() and not is_gap(line) for line in between)

    def _take_header(self, token: _Token) -> int:
        draft = self._begin(token)
        draft.header, draft.module = token.match, token.match["module"]
        return token.end

    def _take_total(self, token: _Token) -> int:
        space, fits = token.match["space"], self._is_of_a_program_that_fits(token)
        is_new = not self._drafts or self._cannot_have_total(space, fits=fits)
        draft = self._current(token, is_new=is_new)
        draft.fits = draft.fits or fits
        draft.open_block = BlockDraft(space, size_in(token.match["total"]))
        draft.totals.append(draft.open_block)
        return token.end

    def _cannot_have_total(self, space: str, *, fits: bool) -> bool:
        draft = self._draft
        has_space = any(block.space == space for block in draft.totals)
        has_space = has_space or self._is_of_another_space(space)
        is_full = bool(draft.entries or draft.requirements or draft.spaces)
        return has_space or is_full or (fits and not draft.fits)

    def _is_of_another_space(self, space: str) -> bool:
        """Whether the open message is only a first line, about another memory space."""
        draft = self._draft
        if draft.header is None or draft.totals or draft.requirements:
            return False
        return draft.header["space"] not in (None, space)

    def _is_of_a_program_that_fits(self, token: _Token) -> bool:
        """Libtpu writes the same tables for programs that fit; where from is said in the prefix."""
        source = self._cleaned.sources.get(self._cleaned.line_of(token.start), "")
        return _FITTING_FILE in source or _FITTING_FILE in _before(self._text, token.start)

    def _take_requirement(self, token: _Token) -> int:
        space = token.match["space"]
        is_new = not self._drafts or bool(self._draft.spaces) or self._is_of_another_space(space)
        is_new = is_new or any(block.space == space for block in self._draft.requirements)
        draft = self._current(token, is_new=is_new)
        draft.open_block = BlockDraft(space, size_in(token.match["total"]))
        draft.requirements.append(draft.open_block)
        return token.end

    def _take_part(self, token: _Token) -> int | None:
        block = self._draft.open_block if self._drafts else None
        if block is None or (self._draft.entries and self._is_interrupted(token)):
            if not self._fills_its_line(token):
                return None
            block = self._orphan_block(token)
        block.parts.append(_part(token.match))
        return token.end

    def _orphan_block(self, token: _Token) -> BlockDraft:
        """A block whose first line is missing."""
        draft = self._current(token, is_new=not self._drafts or bool(self._draft.entries))
        draft.open_block = BlockDraft(None, None)
        is_total = token.match["name"] in _TOTAL_PARTS
        (draft.totals if is_total else draft.requirements).append(draft.open_block)
        return draft.open_block

    def _fills_its_line(self, token: _Token) -> bool:
        line_start = self._text.rfind("\n", 0, token.start) + 1
        return not self._text[line_start : token.start].strip() and not _rest(self._text, token.end)

    def _take_output(self, token: _Token) -> int | None:
        if not self._drafts or not self._draft.totals:
            if token.match["shares"] is None:
                return None
            self._orphan_block_of_output(token)
        match = token.match
        percent = float(match["percent"]) if is_decimal(match["percent"]) else None
        output = Output(size_of(match, "size"), percent, size_of(match, "shares"))
        self._draft.totals[-1].output = output
        return token.end

    def _orphan_block_of_output(self, token: _Token) -> None:
        self._current(token, is_new=False).totals.append(BlockDraft(None, None))

    def _take_largest(self, token: _Token) -> int:
        is_new = bool(self._drafts) and bool(self._draft.entries)
        is_new = is_new and self._draft.table_space in (None, token.match["space"])
        draft = self._current(token, is_new=is_new)
        draft.table_space, draft.open_block, draft.last_number = token.match["space"], None, 0
        return token.end

    def _take_entry(self, token: _Token) -> int:
        number = int(token.match["number"])
        draft = self._current(token, is_new=bool(self._drafts) and self._is_another(token, number))
        draft.open_block, draft.last_number = None, number
        entry = EntryDraft(token.start, token.end, number, size_of(token.match, "size"))
        draft.entries.append(entry)
        return token.end

    def _is_another(self, token: _Token, number: int) -> bool:
        """Whether an entry of this number cannot follow what the open message has."""
        if self._draft.fits or self._draft.spaces:
            return True
        is_next = number == self._draft.last_number + 1
        return number <= self._draft.last_number or (not is_next and self._is_interrupted(token))

    def _take_field(self, token: _Token) -> int | None:
        key = token.match["key"]
        value, end = _value(self._text, token.end)
        entry = self._draft.open_entry if self._drafts else None
        if entry is None or key in entry.fields:
            if not self._is_credible(token, key, value):
                return None
            entry = self._orphan_entry(token)
        entry.fields[key], entry.end = value, end
        return end

    def _orphan_entry(self, token: _Token) -> EntryDraft:
        """An entry whose first lines are missing."""
        is_new = not self._drafts or self._draft.fits or bool(self._draft.spaces)
        is_new = is_new or (bool(self._draft.entries) and self._is_interrupted(token))
        draft = self._current(token, is_new=is_new)
        draft.open_block = None
        draft.entries.append(EntryDraft(token.start, token.end))
        return draft.entries[-1]

    def _is_credible(self, token: _Token, key: str, value: str) -> bool:
        """Whether a field that stands alone is one: its words occur in other texts, too."""
        if _before(self._text, token.start):
            return False
        if key == "Shape":
            return array_shape(value) is not None and "[" in value
        if key in ("Unpadded size", "Extra memory due to padding"):
            return re.match(SIZE, value) is not None
        if key == "Operator":
            return value.startswith(("op_name=", "op_type="))
        return key in ("XLA label", "Allocation type")

    def _take_separator(self, token: _Token) -> int | None:
        entry = self._draft.open_entry if self._drafts else None
        if entry is None:
            return None
        entry.is_closed, entry.end = True, token.end
        return token.end

    def _take_usage(self, token: _Token) -> int:
        draft = self._current(token, is_new=not self._drafts or not self._draft.fits)
        draft.fits = True
        space, used = token.match["space"].lower(), size_of(token.match, "used")
        if used is not None:
            draft.usages.append(Usage(space, used, size_of(token.match, "capacity")))
        return token.end

    def _take_module(self, token: _Token) -> int:
        draft = self._begin(token)
        draft.fits, draft.module = True, token.match["module"]
        return token.end

    def _take_space(self, token: _Token) -> int | None:
        spaces, end = read_spaces(self._text, token.start)
        if not spaces:
            return None
        is_new = not self._drafts or self._draft.header is None or bool(self._draft.spaces)
        is_new = is_new or bool(self._draft.totals or self._draft.entries)
        self._current(token, is_new=is_new).spaces = spaces
        return end


# ---- fields -------------------------------------------------------------------------------------


#: How far is looked in a line; texts without any line breaks would take long otherwise.
_NEAR = 1000


def _before(text: str, at: int) -> str:
    """What stands near before a place in its line."""
    near = max(0, at - _NEAR)
    return text[max(near, text.rfind("\n", near, at) + 1) : at].strip()


def _rest(text: str, at: int) -> str:
    """What stands near behind a place in its line."""
    return text[at : at + _NEAR].partition("\n")[0].strip()


def _part(match: re.Match[str]) -> Part:
    name, size = " ".join(match["name"].split()), size_in(match["size"])
    note = _NOTE.search(match["note"] or "")
    if note is None:
        return Part(name, size)
    lost = note["fragmentation"]
    sign = -1 if lost and lost.startswith("-") else 1
    fragmentation = parse_size(lost.removeprefix("-")) if lost else None
    if fragmentation and sign < 0:
        fragmentation = PrintedSize(-fragmentation.bytes, fragmentation.rounding)
    return Part(
        name,
        size,
        number_in(note["utilization"]),
        size_of(note, "unpadded"),
        size_of(note, "padded"),
        number_in(note["percent"]),
        fragmentation,
    )


_NEXT = re.compile(
    rf"\s*(?:(?<!\w)(?:{_KEYS}):|={{10,}}|(?<![\w.])\d{{1,4}}\. Size:|Largest program alloc"
    r"|Program \w+ requirement|Total \w+ usage|Ran out of memory)"
)
_MOST_LINES = 60
#: How a value goes on in a line that was broken: `source_line=41`, `fusion(…`.
_CONTINUES = re.compile(
    r"\s*(?:op_type|op_name|source_file|source_line|stack_frame_id|kind|calls|metadata|to_apply)="
    r"|\s*[a-z][a-z\-]*\((?:%|[a-z]\w*\[)"
)


def _value(text: str, at: int) -> tuple[str, int]:
    """A field's value and where it ends: at the line's end, or where the next field begins.

    A value whose brackets or quotes are open goes on in the next line, unless that is another field.
    """
    end = _line_end(text, at)
    for _ in range(_MOST_LINES):
        value = text[at:end]
        if text[end : end + 1] not in ("", "\n"):
            break  # another field begins in this line
        following = text[end + 1 : _line_end(text, end + 1)]
        is_whole = _is_balanced(value) and not _CONTINUES.match(following) and value.strip()
        if end >= len(text) or value.rstrip().endswith("...") or is_whole:
            break
        if not following.strip() or _NEXT.match(following) or is_gap(following):
            break
        end = _line_end(text, end + 1)
    return re.sub(r"\s*\n\s*", " ", text[at:end].strip()), end


def _line_end(text: str, at: int) -> int:
    """The end of the line, or where another field begins in it."""
    stop = text.find("\n", at)
    stop = len(text) if stop < 0 else stop
    following = _NEXT.search(text, at, stop)
    return following.start() if following else stop


def _is_balanced(value: str) -> bool:
    quotes = len(re.findall(r'(?<!\\)"', value))
    opened = sum(value.count(c) for c in "([{")
    return quotes % 2 == 0 and opened <= sum(value.count(c) for c in ")]}")
