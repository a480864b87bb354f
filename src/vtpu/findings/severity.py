"""How bad a fault is, by what it costs."""

from __future__ import annotations

from vtpu.findings.finding import Severity

_FROM = ((0.20, Severity.HIGH), (0.05, Severity.MEDIUM), (0.01, Severity.LOW))
_LEAST_OF_A_SMALL_PROGRAM = 16 << 20


def by_share(part: float, whole: float | None) -> Severity:
    """The severity of a cost of `part` of `whole`, in one unit; a note where the whole is not known."""
    share = part / whole if whole else 0.0
    return next((severity for least, severity in _FROM if share >= least), Severity.NOTE)


def of_hbm(size: int, need: int | None, limit: int | None) -> Severity:
    """The severity of `size` bytes that a program need not take, of `need` where `limit` is there.

    By its share of HBM. In a program that takes little of HBM a large part of that counts too, a degree
    less, for it grows with the program; and where the program does not fit and would without it, it is high.
    """
    if need and limit and need > limit >= need - size:
        return Severity.HIGH
    of_program = by_share(size, need) if size >= _LEAST_OF_A_SMALL_PROGRAM else Severity.NOTE
    return max(by_share(size, limit), Severity(max(0, of_program - 1)))
