"""Laws of reading messages: nothing raises, prefixes change nothing, texts add up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from message_texts import FITS, LONG
from vtpu.reading.messages import read_messages
from vtpu.reading.messages.patterns import Message
from vtpu.reading.messages.tables import MemoryReport
from vtpu.reading.messages.verdicts import verdict
from vtpu.reading.printed.sizes import SIZE, PrintedSize, add_sizes, parse_size
from vtpu.reading.recognize import as_text

CASES = Path(__file__).parents[1] / "cases" / "oom_text"
TEXTS = {
    **{path.parent.name: path.read_text() for path in sorted(CASES.glob("*/input.txt"))},
    "composed": LONG,
    "fits": FITS,
}
ONE_LINERS = TEXTS["one-line-messages"].splitlines()

PREFIXES = [
    "E1111 07:35:00.272763    1404 file.cc:81] ",
    "W0000 00:00:1756998431.440298    5182 hlo_rematerialization.cc:3] ",
    "W0000 00:00:1756998431.440298 5182 ",
    "2020-05-04 09:05:40.721128: E    1578 xla/xla_util.cc:76] ",
    "2024-05-28 07:02:44.350162: W external/tsl/framework/bfc_allocator.cc:482] ",
    "(EngineCore pid=20417) ERROR 08-19 10:02:37 [core.py:1184] ",
    "(EngineCore_DP0 pid=7) ",
    "ERROR 08-19 10:02:37 [core.py:1184] ",
    "(pid=1234, ip=10.130.0.7) ",
    "(RayTrainWorker pid=1234, ip=10.130.0.7) ",
    "2025-11-03T10:20:30.123456789Z ",
    "2025-11-03T10:20:30.123456789Z stderr F ",
    "2025-01-01 10:00:00,123 - ",
    "[rank3]: ",
    "ERROR:root:",
    "W hlo_rematerialization.cc:1363] ",
    "> ",
    ">> ",
    "**",
    "\t",
    "\x1b[31m",
]


def without_place(message: Message) -> Message:
    """The message as if it stood elsewhere."""
    where = replace(message.where, lines=(0, 0))
    if isinstance(message, MemoryReport):
        entries = tuple(replace(entry, lines=(0, 0)) for entry in message.entries)
        return replace(message, where=where, entries=entries)
    return replace(message, where=where)


def read_all(text: str) -> list[Message]:
    messages = read_messages(text)
    for message in messages.found:
        assert verdict(message).sentence
    return [without_place(message) for message in messages.found]


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_cut_at_any_character_is_read(name: str) -> None:
    text = TEXTS[name]
    step = max(1, len(text) // 400)
    for end in range(0, len(text), step):
        messages = read_messages(text[:end])
        lines = {n for message in messages.found for n in range(*lines_of(message))}
        lines |= {number for number, _ in messages.unknown}
        shown = {n for n, line in enumerate(text[:end].split("\n"), 1) if line.strip(" >*\t")}
        assert all(line in lines or is_only_prefix(text, line) for line in shown)
        assert len(messages.found) <= len(read_messages(text).found)


def lines_of(message: Message) -> tuple[int, int]:
    first, last = message.where.lines
    return first, last + 1


def is_only_prefix(text: str, number: int) -> bool:
    """Whether a line has nothing but a logger's prefix, or says that lines were left out."""
    line = text.split("\n")[number - 1]
    starts = ("(EngineCore", "2020-06-11", "I1130", "INFO:tensorflow:", "W hlo_", "W spmd_")
    return line == "[...]" or line.startswith(starts)


@pytest.mark.parametrize("line", ONE_LINERS)
def test_a_cut_message_has_the_fields_of_the_whole_or_none(line: str) -> None:
    (whole,) = read_messages(line).found
    for end in range(len(line)):
        for cut in read_messages(line[:end]).found:
            if type(cut) is type(whole):
                assert_fields_kept(cut, whole)


def assert_fields_kept(cut: Any, whole: Any) -> None:
    """A field of a cut message is that of the whole one or says nothing."""
    for name in whole.__dataclass_fields__:
        part, full = getattr(cut, name), getattr(whole, name)
        if name in ("where", "device", "what") or part in (None, (), False):
            continue
        if isinstance(part, PrintedSize):
            assert part.may_equal(full), name
        else:
            assert part == full, name


@given(st.binary(max_size=2000))
def test_random_bytes_are_read(data: bytes) -> None:
    messages = read_messages(as_text(data))
    assert messages.found == ()


WORDS = st.sampled_from(
    [*ONE_LINERS, *LONG.splitlines(), *TEXTS["gpu-already-full"].splitlines(), *PREFIXES]
)


@given(st.lists(st.tuples(WORDS, st.integers(0, 60), st.integers(0, 200))))
@settings(max_examples=300, deadline=None)
def test_pieces_of_messages_in_any_order_are_read(pieces: list[tuple[str, int, int]]) -> None:
    text = "".join(piece[start : start + length] for piece, start, length in pieces)
    for message in read_messages(text).found:
        assert verdict(message).sentence
        assert message.where.lines[0] <= message.where.lines[1]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("name", TEXTS)
def test_a_prefix_on_each_line_changes_nothing(name: str, prefix: str) -> None:
    text = TEXTS[name]
    prefixed = "\n".join(prefix + line for line in text.split("\n"))

    assert read_messages(prefixed).found == read_messages(text).found


def test_a_clusters_suffix_changes_nothing() -> None:
    line = ONE_LINERS[0]
    assert read_all(f"(pid=7, ip=10.0.0.1) {line} [repeated 5x across cluster]") == read_all(line)


@given(st.lists(st.sampled_from(sorted(TEXTS)), min_size=2, max_size=3))
@settings(max_examples=60, deadline=None)
def test_texts_one_after_the_other_give_the_messages_of_each(names: list[str]) -> None:
    # An entry that is cut may go on behind a line of others: that is how logs are interleaved.
    assume("hbm-prefixed-entry" not in names[1:])
    together = read_all("\nsomething else\n".join(TEXTS[name] for name in names))

    assert together == [message for name in names for message in read_all(TEXTS[name])]


@given(st.lists(st.sampled_from(ONE_LINERS), max_size=6))
def test_messages_joined_in_one_line_are_found(lines: list[str]) -> None:
    joined = [m.template for m in read_messages(" ".join(lines)).found]
    apart = [m.template for m in read_messages("\n".join(lines)).found]
    assert len(joined) >= len(set(apart))


def test_lines_of_others_within_a_table_are_kept() -> None:
    text = LONG.replace(
        "  2. Size: 4.00G", "I0101 00:00:00.1 7 other.cc:3] hello\n  2. Size: 4.00G"
    )
    messages = read_messages(text)

    assert read_all(text) == read_all(LONG)
    assert [line for _, line in messages.unknown] == ["I0101 00:00:00.1 7 other.cc:3] hello"]


# ---- sizes --------------------------------------------------------------------------------------

UNITS = ["B", *(f"{unit}{end}" for unit in "KMGTPE" for end in ("", "iB"))]


@given(st.integers(0, 1 << 60))
def test_a_printed_size_is_within_its_rounding(exact: int) -> None:
    for unit, letter in enumerate("BKMGTPE"):
        if unit == 0 or exact >> (10 * unit):
            decimals = 0 if unit == 0 else 1 if unit == 1 else 2
            printed = f"{exact / (1 << (10 * unit)):.{decimals}f}{letter}"
            size = parse_size(printed)
            slack = exact >> 52  # of the division above
            assert size.low - slack <= exact <= size.high + slack


@given(st.lists(st.integers(0, 1 << 40), max_size=5))
def test_rounded_parts_may_equal_their_rounded_sum(parts: list[int]) -> None:
    printed = [parse_size(f"{part / (1 << 30):.2f}G") for part in parts]
    total = parse_size(f"{sum(parts) / (1 << 30):.2f}G")
    assert add_sizes(printed).may_equal(total)


@pytest.mark.parametrize("text", ["", "12", "G", "1.2.3G", "1,5G", "9" * 40 + "B", "-1B", "1.5X"])
def test_what_is_no_size_is_refused(text: str) -> None:
    import re

    assert re.fullmatch(SIZE, text) is None


def test_whole_bytes_are_exact() -> None:
    assert parse_size("0B") == PrintedSize(0)
    assert parse_size("252B") == PrintedSize(252)
