"""Long logs are read around messages: lines keep their numbers, nothing of a message is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from vtpu.reading.long_logs import around_messages
from vtpu.reading.messages import read_messages

LINE = "I0819 10:02:37.123456 4242 trainer.py:88] step 1234 loss 2.345 gradient 0.87\n"
ERROR = "Failed to allocate request for 32.00MiB (33554432B) on device ordinal 0\n"


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=3))
def test_messages_of_a_long_log_are_found_at_their_lines(places: list[int]) -> None:
    lines = [LINE] * 60_001
    for place in places:
        lines[place] = ERROR
    text = "".join(lines)
    kept, skipped = around_messages(text)
    assert kept.count("\n") == text.count("\n")
    found = read_messages(kept).found
    assert [m.where.lines[0] for m in found] == sorted({place + 1 for place in places})
    for first, last in skipped:
        assert all(not first <= place + 1 <= last for place in places)
    empty = sum(last - first + 1 for first, last in skipped)
    assert kept.count("\n\n") <= empty


def test_a_short_text_stays_whole() -> None:
    assert around_messages(LINE * 100) == (LINE * 100, ())


def test_a_long_text_without_a_message_is_empty() -> None:
    kept, skipped = around_messages(LINE * 60_000)
    assert kept.strip() == ""
    assert skipped == ((1, 60_000),)
