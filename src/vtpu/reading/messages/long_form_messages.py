"""From the draft of XLA:TPU's long message to the message, and what does not add up in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vtpu.reading.messages.cleaning import CleanText, is_gap
from vtpu.reading.messages.long_form_drafts import Draft, EntryDraft, number_in
from vtpu.reading.messages.patterns import Found, Where, locate, size_of, text_of
from vtpu.reading.messages.sums import doubtful_sums
from vtpu.reading.messages.tables import Entry, MemoryReport
from vtpu.reading.printed.operators import parse_operator
from vtpu.reading.printed.shapes import array_shape
from vtpu.reading.printed.sizes import SIZE, PrintedSize, parse_size

_EXTRA = re.compile(rf"\s*(?P<extra>{SIZE})(?: \((?P<times>[\d.]{{1,12}})x expansion\))?")


def finish(cleaned: CleanText, text: str, draft: Draft) -> Found:
    """The message that a draft became, and what is doubtful about it."""
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


def _template(draft: Draft) -> str:
    if draft.fits:
        return "T23"
    if draft.spaces:
        return "T27"
    space = (draft.header["space"] if draft.header else None) or _first_space(draft)
    return "T8" if space == "vmem" else "T1"


def _first_space(draft: Draft) -> str | None:
    blocks = [*draft.totals, *draft.requirements]
    named = [block.space for block in blocks if block.space]
    if draft.table_space and not named:
        return draft.table_space
    if draft.spaces and not named:
        return None
    return named[0] if named else None


def _entry(cleaned: CleanText, draft: EntryDraft) -> Entry:
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
        expansion=number_in(extra["times"]) if extra else None,
        tag=fields.get("Tag"),
        label=fields.get("XLA label"),
        allocation_type=fields.get("Allocation type"),
        lines=cleaned.lines_of(draft.start, draft.end),
        # the allocation type is the last field; the line of signs behind it is often lost
        is_cut=not draft.is_closed and "Allocation type" not in fields,
    )


def _padding(
    draft: EntryDraft, unpadded: PrintedSize | None, extra: re.Match[str] | None
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


def _is_cut(draft: Draft, entries: tuple[Entry, ...], text: str) -> bool:
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


def _gaps(cleaned: CleanText, draft: Draft) -> Iterator[str]:
    first, last = cleaned.lines_of(draft.start, draft.end)
    for number in range(first, last + 1):
        if is_gap(cleaned.line(number)):
            yield f"line {number}: lines were left out here"
