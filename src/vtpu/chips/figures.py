"""Numbers and words that someone published or printed, each with where it was read.

A figure keeps every source's value: sources disagree (HBM bandwidth of v5p by 12 %), and whoever
uses one number must be able to show the interval. Units are in the name of the field that holds a
figure. An unknown figure is `None` where it would stand, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value", int, float, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where figures were read: an identifier of one file's own, and a reference for people."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Generic[Value]):
    """One source's value. `source` is the identifier of a `Source` of the same generation."""

    value: Value
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Generic[Value]):
    """What all sources say of one quantity; at least one claim, the preferred one first."""

    claims: tuple[Claim[Value], ...]

    @property
    def value(self) -> Value:
        """The preferred source's value, for places with room for one number."""
        return self.claims[0].value

    @property
    def lowest(self) -> Value:
        """The least of the sources' values."""
        return min(claim.value for claim in self.claims)

    @property
    def highest(self) -> Value:
        """The greatest of the sources' values."""
        return max(claim.value for claim in self.claims)

    @property
    def sources(self) -> tuple[str, ...]:
        """The identifiers of the sources, the preferred one first."""
        return tuple(claim.source for claim in self.claims)


def figure_of(claims: Mapping[str, Value]) -> Figure[Value]:
    """The figure that a table `{ source = value }` describes; at least one entry.

    Raises:
        ValueError: no source gives a value; such a figure is absent instead.
    """
    if not claims:
        raise ValueError("a figure needs a source: leave it out where none gives a value")
    return Figure(claims=tuple(Claim(value=v, source=s) for s, v in claims.items()))
