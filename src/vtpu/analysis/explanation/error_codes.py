"""XLA's codes of errors about memory, and the pages that explain them.

The codes are those of openxla/xla `docs/errors/error_codes.md`. Older releases print the same messages
without them, so a code also follows from the template of a message.
"""

from __future__ import annotations

from vtpu.reading.messages.patterns import Message
from vtpu.reading.messages.tables import MemoryReport

_PAGE = "https://openxla.org/xla/errors/error_{}"
_BY_TEMPLATE = {
    "T2": "E1000",
    "T3": "E1000",
    "T5": "E1000",
    "T7": "E1001",
    "T9": "E0100",
    "T10": "E0101",
    "T11": "E0101",
    "T13": "E0102",
    "T26": "E1200",
}


def error_code(message: Message) -> str | None:
    """The code that a message has or, in today's releases, would have; None where there is none."""
    if message.code:
        return message.code
    if isinstance(message, MemoryReport):
        return _of_report(message)
    return _BY_TEMPLATE.get(message.template)


def _of_report(report: MemoryReport) -> str | None:
    if report.fits:
        return None
    return {"hbm": "E1000", "vmem": "E1001"}.get(report.space or "")


def error_page(code: str | None) -> str | None:
    """The address of the page about a code."""
    return _PAGE.format(code.removeprefix("E")) if code else None
