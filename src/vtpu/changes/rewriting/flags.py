"""Options of the compiler that are worth trying, with what they do and who says so (`flags.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from vtpu.changes.goal import Goal

_FILE = Path(__file__).parent / "flags.toml"


class When(StrEnum):
    """What a program must have, so that a flag can make a difference."""

    FRAGMENTATION = "fragmentation"  # another packing of its heap is smaller
    COLLECTIVE_MATMUL = (
        "collective-matmul"  # products that are split into steps with their collectives
    )
    COLLECTIVES = "collectives"  # any
    PRODUCTS = "products"  # products take much of the step


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Options with the values to try, each a set that is given together.

    `what` says what they do, `when` what they concern, `goals` what they may serve. `caution` is what they may
    cost. `source` is where they are documented.
    """

    name: str
    what: str
    when: When
    goals: tuple[Goal, ...]
    values: tuple[Mapping[str, str | int | bool], ...]
    source: str
    caution: str


@cache
def all_flags() -> tuple[Flag, ...]:
    """The curated list.

    Raises:
        KeyError, ValueError: the file is not as it should be.
    """
    data = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(_flag(name, entry) for name, entry in data.items())


def _flag(name: str, entry: dict[str, object]) -> Flag:
    given = {**entry}
    goals, values = given.pop("goals"), given.pop("values")
    assert isinstance(goals, list)
    assert isinstance(values, list)
    return Flag(
        name=name,
        when=When(str(given.pop("when"))),
        goals=tuple(Goal(goal) for goal in goals),
        values=tuple(values),
        **{key: " ".join(str(text).split()) for key, text in given.items()},
    )
