"""Whether the numbers of a long message add up, each known only as far as it was printed."""

from __future__ import annotations

from collections.abc import Iterator

from vtpu.reading.messages.tables import Block, Entry, MemoryReport
from vtpu.reading.printed.sizes import PrintedSize, add_sizes
from vtpu.units import format_bytes


def doubtful_sums(report: MemoryReport) -> Iterator[str]:
    """Sentences about sums that do not come out within what rounding explains."""
    if report.used and report.capacity and report.over:
        yield from _compare(
            f"used minus capacity of {report.space}", report.used - report.capacity, report.over
        )
    for block in (*report.totals, *report.requirements):
        yield from _block(block)
    for entry in report.entries:
        yield from _entry(entry)


def _block(block: Block) -> Iterator[str]:
    """A total is at least its parts ("Total hbm usage >="); parts of unknown size say nothing."""
    sizes = [part.size for part in block.parts if part.size is not None]
    if block.total is None or not sizes or len(sizes) < len(block.parts):
        return
    if len(block.parts) > 1 and block.space:
        yield from _compare(f"the parts of {block.space}", add_sizes(sizes), block.total)


def _entry(entry: Entry) -> Iterator[str]:
    if entry.size and entry.unpadded and entry.padding is not None:
        name = f"unpadded size and padding of entry {entry.number}"
        yield from _compare(name, entry.unpadded + entry.padding, entry.size)


def _compare(what: str, computed: PrintedSize, printed: PrintedSize) -> Iterator[str]:
    if not computed.may_equal(printed):
        difference = format_bytes(abs(computed.bytes - printed.bytes))
        yield (
            f"{what} make {format_bytes(computed.bytes)}, but {format_bytes(printed.bytes)} is"
            f" printed: {difference} more than rounding explains or lines are missing"
        )
