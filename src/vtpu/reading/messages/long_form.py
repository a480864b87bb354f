"""XLA:TPU's long message, put together from its fields in the order of the text.

Fields are found wherever they stand, so lines may be joined, broken, prefixed or left out. A field
that cannot belong to the message that is open begins another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from vtpu.reading.messages.cleaning import CleanText, is_gap
from vtpu.reading.messages.patterns import Found, Where, cuttable, locate, size_of, spaced, text_of
from vtpu.reading.messages.sums import doubtful_sums
from vtpu.reading.messages.tables import Block, Entry, MemoryReport, Output, Part, Usage
from vtpu.reading.printed.operators import parse_operator
from vtpu.reading.printed.shapes import array_shape
from vtpu.reading.printed.sizes import SIZE, PrintedSize, parse_size
from vtpu.reading.text_dumps.usage_report import SpaceUsage, read_spaces

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
_EXTRA = re.compile(rf"\s*(?P<extra>{SIZE})(?: \((?P<times>[\d.]{{1,12}})x expansion\))?")
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


# ---- messages while they are put together ------------------------------------------------------


@dataclass(slots=True)
class _BlockDraft:
    space: str | None
    total: PrintedSize | None
    parts: list[Part] = field(default_factory=list[Part])
    output: Output | None = None

    def block(self) -> Block:
        return Block(self.space, self.total, tuple(self.parts), self.output)


@dataclass(slots=True)
class _EntryDraft:
    start: int
    end: int
    number: int | None = None
    size: PrintedSize | None = None
    fields: dict[str, str] = field(default_factory=dict[str, str])
    is_closed: bool = False


@dataclass(slots=True)
class _Draft:
    start: int
    end: int
    header: re.Match[str] | None = None
    module: str | None = None
    fits: bool = False
    totals: list[_BlockDraft] = field(default_factory=list[_BlockDraft])
    requirements: list[_BlockDraft] = field(default_factory=list[_BlockDraft])
    open_block: _BlockDraft | None = None
    table_space: str | None = None
    last_number: int = 0
    entries: list[_EntryDraft] = field(default_factory=list[_EntryDraft])
    spaces: tuple[SpaceUsage, ...] = ()
    usages: list[Usage] = field(default_factory=list[Usage])
    spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    @property
    def open_entry(self) -> _EntryDraft | None:
        return self.entries[-1] if self.entries and not self.entries[-1].is_closed else None


class _Reader:
    """Puts tokens together to messages."""

    def __init__(self, cleaned: CleanText, text: str) -> None:
        self._cleaned, self._text = cleaned, text
        self._drafts: list[_Draft] = []
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
        return [_found(self._cleaned, self._text, draft) for draft in self._drafts]

    @property
    def _draft(self) -> _Draft:
        return self._drafts[-1]

    def _begin(self, token: _Token) -> _Draft:
        self._drafts.append(_Draft(token.start, token.end))
        return self._draft

    def _current(self, token: _Token, *, is_new: bool) -> _Draft:
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
        draft.open_block = _BlockDraft(space, _size(token.match["total"]))
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
        draft.open_block = _BlockDraft(space, _size(token.match["total"]))
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

    def _orphan_block(self, token: _Token) -> _BlockDraft:
        """A block whose first line is missing."""
        draft = self._current(token, is_new=not self._drafts or bool(self._draft.entries))
        draft.open_block = _BlockDraft(None, None)
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
        percent = float(match["percent"]) if _is_decimal(match["percent"]) else None
        output = Output(size_of(match, "size"), percent, size_of(match, "shares"))
        self._draft.totals[-1].output = output
        return token.end

    def _orphan_block_of_output(self, token: _Token) -> None:
        self._current(token, is_new=False).totals.append(_BlockDraft(None, None))

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
        entry = _EntryDraft(token.start, token.end, number, size_of(token.match, "size"))
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

    def _orphan_entry(self, token: _Token) -> _EntryDraft:
        """An entry whose first lines are missing."""
        is_new = not self._drafts or self._draft.fits or bool(self._draft.spaces)
        is_new = is_new or (bool(self._draft.entries) and self._is_interrupted(token))
        draft = self._current(token, is_new=is_new)
        draft.open_block = None
        draft.entries.append(_EntryDraft(token.start, token.end))
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


def _size(text: str | None) -> PrintedSize | None:
    return parse_size(text) if text and re.fullmatch(SIZE, text) else None


#: How far is looked in a line; texts without any line breaks would take long otherwise.
_NEAR = 1000


def _before(text: str, at: int) -> str:
    """What stands near before a place in its line."""
    near = max(0, at - _NEAR)
    return text[max(near, text.rfind("\n", near, at) + 1) : at].strip()


def _rest(text: str, at: int) -> str:
    """What stands near behind a place in its line."""
    return text[at : at + _NEAR].partition("\n")[0].strip()


def _is_decimal(text: str | None) -> bool:
    return text is not None and re.fullmatch(r"-?\d{1,9}(?:\.\d{1,9})?", text) is not None


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and _is_decimal(text) else None


def _part(match: re.Match[str]) -> Part:
    name, size = " ".join(match["name"].split()), _size(match["size"])
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
        _number(note["utilization"]),
        size_of(note, "unpadded"),
        size_of(note, "padded"),
        _number(note["percent"]),
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


# ---- messages -----------------------------------------------------------------------------------


def _found(cleaned: CleanText, text: str, draft: _Draft) -> Found:
    entries = tuple(_entry(cleaned, entry) for entry in draft.entries)
    is_cut = _is_cut(draft, entries, text)
    where = locate(cleaned, _template(draft), draft.start, draft.end, is_cut=is_cut)
    if where.code and where.template == "T1":
        where = Where("T3", where.code, where.lines, where.is_cut)
    header = draft.header
    report = MemoryReport(
        where=where,
        has_header=header is not None,
        fits=draft.fits,
        space=(header["space"] if header else None) or _first_space(draft),
        used=size_of(header, "used") if header else None,
        capacity=size_of(header, "capacity") if header else None,
        over=size_of(header, "over") if header else None,
        module=text_of(header, "module") if header else draft.module,
        totals=tuple(block.block() for block in draft.totals),
        requirements=tuple(block.block() for block in draft.requirements),
        entries=entries,
        usage=draft.spaces,
        usages=tuple(draft.usages),
    )
    problems = (*_problems(report), *_gaps(cleaned, draft))
    return Found(draft.start, draft.end, report, problems, tuple(draft.spans))


def _template(draft: _Draft) -> str:
    if draft.fits:
        return "T23"
    if draft.spaces:
        return "T27"
    space = (draft.header["space"] if draft.header else None) or _first_space(draft)
    return "T8" if space == "vmem" else "T1"


def _first_space(draft: _Draft) -> str | None:
    blocks = [*draft.totals, *draft.requirements]
    named = [block.space for block in blocks if block.space]
    if draft.table_space and not named:
        return draft.table_space
    if draft.spaces and not named:
        return None
    return named[0] if named else None


def _entry(cleaned: CleanText, draft: _EntryDraft) -> Entry:
    fields = draft.fields
    extra = _EXTRA.match(fields.get("Extra memory due to padding", ""))
    printed = re.match(SIZE, fields.get("Unpadded size", ""))
    unpadded = parse_size(printed[0]) if printed else None
    operator = fields.get("Operator")
    shape = array_shape(fields.get("Shape"))
    return Entry(
        number=draft.number,
        size=draft.size,
        operator=parse_operator(operator) if operator is not None else None,
        shape_text=fields.get("Shape"),
        shape=shape,
        unpadded=unpadded,
        padding=_padding(draft, unpadded, extra),
        expansion=_number(extra["times"]) if extra else None,
        tag=fields.get("Tag"),
        label=fields.get("XLA label"),
        allocation_type=fields.get("Allocation type"),
        lines=cleaned.lines_of(draft.start, draft.end),
        # the allocation type is the last field; the line of signs behind it is often lost
        is_cut=not draft.is_closed and "Allocation type" not in fields,
    )


def _padding(
    draft: _EntryDraft, unpadded: PrintedSize | None, extra: re.Match[str] | None
) -> PrintedSize | None:
    """What tiles add. The line is missing where they add nothing, and where the text is cut."""
    if extra:
        return size_of(extra, "extra")
    if "Unpadded size" not in draft.fields:
        return None
    has_next = any(k in draft.fields for k in ("XLA label", "Tag", "Allocation type"))
    is_whole = draft.size is not None and draft.size == unpadded
    return PrintedSize(0) if has_next or is_whole else None


_NOTHING_MORE = re.compile(r"[\s\0]*\Z")


def _is_cut(draft: _Draft, entries: tuple[Entry, ...], text: str) -> bool:
    if entries:
        return entries[-1].is_cut
    is_last = _NOTHING_MORE.match(text, draft.end) is not None
    header_is_cut = draft.header is not None and draft.header["end"] is None
    return header_is_cut or (is_last and draft.table_space is not None)


def _problems(report: MemoryReport) -> Iterator[str]:
    first, last = report.where.lines
    here = f"line {first}" if first == last else f"lines {first} to {last}"
    if not report.has_header and not report.fits:
        yield (
            f'{here}: the first line ("Ran out of memory in memory space …") is missing:'
            " what was used and what the limit is are unknown"
        )
    yield from (f"{here}: {problem}" for problem in _numbering(report))
    yield from (
        f"line {entry.lines[1]}: {_name(entry)} ends early"
        for entry in report.entries
        if entry.is_cut
    )
    if report.where.is_cut and not report.entries:
        yield f"line {last}: the message ends early"
    yield from (f"{here}: {problem}" for problem in doubtful_sums(report))


def _name(entry: Entry) -> str:
    return f"entry {entry.number}" if entry.number is not None else "an entry without number"


def _numbering(report: MemoryReport) -> Iterator[str]:
    """Entries that are missing in the table."""
    expected = 1
    for entry in report.entries:
        if entry.number is None:
            yield "the first lines of an entry are missing: its number and size are unknown"
            continue
        if entry.number == 1:
            expected = 1
        if entry.number > expected:
            last = entry.number - 1
            missing = (
                f"entry {last} is" if last == expected else f"entries {expected} to {last} are"
            )
            yield f"{missing} missing in the table"
        expected = entry.number + 1


def _gaps(cleaned: CleanText, draft: _Draft) -> Iterator[str]:
    first, last = cleaned.lines_of(draft.start, draft.end)
    for number in range(first, last + 1):
        if is_gap(cleaned.line(number)):
            yield f"line {number}: lines were left out here"
