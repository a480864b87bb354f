"""Sizes as XLA prints them: `12.34G`, `276.0K`, `5.93GiB`, `0B`; rounded, so with an interval.

Units are binary. A size printed with two decimals is known to half a hundredth of its unit; whoever
adds such sizes adds their intervals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

#: A regular expression of a printed size. The unit is required: a size cut before it is no size.
SIZE = r"\d{1,20}(?:\.\d{1,9})?(?:[KMGTPE](?:i?B)?|B)"
_SIZE = re.compile(r"(\d{1,20})(?:\.(\d{1,9}))?\s*([KMGTPE]?)(?:i?B)?")
_UNITS = {unit: 1 << (10 * power) for power, unit in enumerate(["", *"KMGTPE"])}


@dataclass(frozen=True, slots=True)
class PrintedSize:
    """A size in bytes, and by how many bytes at most it was rounded when it was printed."""

    bytes: int
    rounding: int = 0

    @property
    def low(self) -> int:
        """The smallest size that prints so."""
        return max(0, self.bytes - self.rounding)

    @property
    def high(self) -> int:
        """The largest size that prints so."""
        return self.bytes + self.rounding

    def __add__(self, other: PrintedSize) -> PrintedSize:
        return PrintedSize(self.bytes + other.bytes, self.rounding + other.rounding)

    def __sub__(self, other: PrintedSize) -> PrintedSize:
        return PrintedSize(self.bytes - other.bytes, self.rounding + other.rounding)

    def may_equal(self, other: PrintedSize) -> bool:
        """Whether both can be the same size before rounding."""
        return abs(self.bytes - other.bytes) <= self.rounding + other.rounding

    def surely_exceeds(self, other: PrintedSize) -> bool:
        """Whether it is larger whatever was rounded away."""
        return self.bytes - other.bytes > self.rounding + other.rounding


def parse_size(text: str) -> PrintedSize:
    """The size that XLA prints as `text`.

    Raises:
        ValueError: `text` is not such a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"not a printed size: {text[:40]!r}")
    whole, decimals, unit = match[1], match[2] or "", _UNITS[match[3]]
    exact = Fraction(int(whole + decimals), 10 ** len(decimals)) * unit
    # The last digit is rounded; whole bytes are not. XLA's `HumanReadableNumBytes`, which prints the
    # units with iB, drops what is below the next smaller unit first (`tsl/platform/numbers.cc`).
    step = Fraction(unit, 10 ** len(decimals)) if unit > 1 else Fraction(0)
    dropped = unit // 1024 if text.strip().endswith("iB") else 0
    return PrintedSize(round(exact), -(-step // 2) + dropped)


def add_sizes(sizes: Iterable[PrintedSize]) -> PrintedSize:
    """The sum, with the sum of what was rounded away."""
    return sum(sizes, PrintedSize(0))


def difference(size: PrintedSize | None, other: PrintedSize | None) -> PrintedSize | None:
    """`size` minus `other`; None when one of them is unknown."""
    return None if size is None or other is None else size - other
