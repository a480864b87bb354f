"""What a rule says: how bad, why it is known, what it costs, what to change."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.evidence import Basis


class Severity(IntEnum):
    """How bad it is. From which share of HBM on is in `severity`, of a step in `step_cost`."""

    NOTE = 0  # next to nothing, or nothing that costs anything today
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4  # the program cannot run

    def __str__(self) -> str:
        """The word for it."""
        return self.name.lower()


class Unit(StrEnum):
    """What an amount counts."""

    BYTES = "bytes"
    SECONDS = "seconds"
    COUNT = "count"
    FLOPS = "flops"
    SHARE = "share"  # of 1


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure and where it comes from."""

    value: float
    unit: Unit
    basis: Basis


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that shows the fault: what it is, with its figure, its line or a text where it has them."""

    what: str
    amount: Amount | None = None
    line: SourceLine = UNKNOWN_LINE
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the fault costs: HBM on each device, time of every step, time once in a run.

    None is unknown or not the matter; a rule that can tell one of them does.
    """

    hbm: Amount | None = None
    step: Amount | None = None
    once: Amount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault of a program or a run.

    `rule` is the slug of the rule that found it. `title` is one sentence with the names and figures
    that matter. `change` says what to do here, in the program's own words. `line` is where to do it,
    `program` the compiled program that it is about.
    """

    rule: str
    severity: Severity
    title: str
    change: str
    evidence: tuple[Evidence, ...]
    cost: Cost = Cost()
    line: SourceLine = UNKNOWN_LINE
    program: str = ""


def hbm_bytes(size: int, basis: Basis = Basis.COMPILER) -> Amount:
    """An amount of memory."""
    return Amount(size, Unit.BYTES, basis)


def seconds(value: float, basis: Basis = Basis.MODELLED) -> Amount:
    """An amount of time."""
    return Amount(value, Unit.SECONDS, basis)


def count(number: int, basis: Basis = Basis.SIMULATED) -> Amount:
    """A number of things."""
    return Amount(number, Unit.COUNT, basis)


def share(part: float, basis: Basis) -> Amount:
    """A part of 1."""
    return Amount(part, Unit.SHARE, basis)
