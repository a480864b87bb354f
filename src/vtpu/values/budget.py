"""What reading one value may cost."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from vtpu.errors import UsageError
from vtpu.units import format_bytes, format_flops, parse_bytes


class Mode(StrEnum):
    """What arrays contain."""

    AUTO = "auto"  # what the host reads is computed, within a budget
    CPU = "cpu"  # the same without a budget
    ZEROS = "zeros"  # nothing is computed


class Unknown(StrEnum):
    """What the host sees of a value that cannot be had."""

    ZEROS = "zeros"
    NAN = "nan"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that one read may cost. `bytes` are those that all operations write."""

    flops: float = float("inf")
    bytes: float = float("inf")
    seconds: float = float("inf")

    def excess(self, flops: float, size: float) -> str | None:
        """Why an estimated cost is too much, or None."""
        if flops > self.flops:
            return f"needs more than the budget of {format_flops(self.flops)}"
        if size > self.bytes:
            return f"writes more than the budget of {format_bytes(int(self.bytes))}"
        return None


#: A few seconds on a small machine: 10 to 100 GFLOP/s is what XLA reaches on two cores.
DEFAULT_BUDGET = Budget(flops=500e9, bytes=32 << 30, seconds=30)
NO_BUDGET = Budget()

_PART = re.compile(r"([0-9.]+(?:e[+-]?\d+)?)([KMGTP]?FLOPS?|ms|s|min)", re.IGNORECASE)
_FLOPS = {p + "FLOP": 1000.0**n for n, p in enumerate(("", "K", "M", "G", "T", "P"))}
_SECONDS = {"MS": 1e-3, "S": 1.0, "MIN": 60.0}


def parse_budget(text: str) -> Budget:
    """The budget that `text` names: `500GFLOP,8GiB,30s`, parts in any order; the rest as by default.

    Raises:
        UsageError: a part is not understood.
    """
    budget = DEFAULT_BUDGET
    for part in text.replace(" ", "").split(","):
        match = _PART.fullmatch(part)
        try:
            if not match:
                budget = replace(budget, bytes=parse_bytes(part))
            elif (unit := match[2].upper()) in _SECONDS:
                budget = replace(budget, seconds=float(match[1]) * _SECONDS[unit])
            else:
                budget = replace(budget, flops=float(match[1]) * _FLOPS[unit.removesuffix("S")])
        except ValueError:
            raise UsageError(
                f"{part!r} is not part of a budget for values. Write for example "
                "500GFLOP,8GiB,30s: operations, bytes written, seconds."
            ) from None
    return budget
