"""In which order changes are tried."""

from __future__ import annotations

from vtpu.changes.change import Change, Numerics
from vtpu.changes.goal import Goal
from vtpu.fixing.search import in_turn


def change(title: str, group: str, saves: float | None) -> Change:
    return Change(
        kind=group, title=title, group=group, numerics=Numerics.IDENTICAL, expected_bytes=saves
    )


def test_each_kind_has_its_turn_before_a_second_variant_of_another() -> None:
    given = [
        change("eight parts", "parts", 700),
        change("four parts", "parts", 600),
        change("two parts", "parts", 500),
        change("donate", "donate", 100),
        change("flag", "flag", None),
    ]
    titles = [c.title for c in in_turn(given, Goal.MEMORY)]
    assert titles == ["eight parts", "donate", "flag", "four parts", "two parts"]
