"""Comparing the memory of two programs: laws that hold of every pair."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from program_strategies import programs
from vtpu.analysis.diff.lines import match_lines
from vtpu.analysis.diff.memory import diff_memory
from vtpu.analysis.program.memory import MemoryUsage, analyse_memory
from vtpu.analysis.source_lines import SourceLine

usages = programs().map(analyse_memory)
PARTS = ("by_argument", "by_role", "by_layer", "by_line", "by_dtype", "buffers")


@given(usages, usages)
def test_the_differences_of_each_grouping_sum_to_that_of_the_peak(before, after):
    for space in diff_memory(before, after).spaces:
        for name in PARTS:
            parts = getattr(space, name)
            assert deltas(parts) == space.peak_bytes.delta
        assert deltas(space.by_kind) == space.total_bytes.delta
        parts = (space.peak_bytes.delta, space.free_at_peak_bytes.delta)
        assert sum(d or 0 for d in parts) == space.total_bytes.delta


def deltas(pairs):
    assert all(pair.delta_bytes is not None for pair in pairs)
    return sum(pair.delta_bytes for pair in pairs)


@given(usages, usages)
def test_padding_and_counts_add_up_too(before, after):
    for space in diff_memory(before, after).spaces:
        for name in PARTS[:-1]:
            change = sum(_padding(p.after) - _padding(p.before) for p in getattr(space, name))
            assert change == space.padding_bytes.delta


def _padding(part):
    return part.padding_bytes if part else 0


@given(usages, usages)
def test_the_other_way_round_everything_is_the_other_way_round(before, after):
    assert diff_memory(after, before) == -diff_memory(before, after)


@given(usages)
def test_a_program_does_not_differ_from_itself(usage):
    assert diff_memory(usage, usage).is_empty


@given(usages, usages)
def test_what_is_empty_has_the_same_figures(before, after):
    if diff_memory(before, after).is_empty:
        assert sizes(before) == sizes(after)


def sizes(usage: MemoryUsage) -> list[tuple[int, int, list[int]]]:
    return [
        (s.total_bytes, s.peak_bytes, sorted(i.bytes for i in s.items))
        for s in usage.spaces
        if s.items
    ]


@given(usages, usages)
def test_every_buffer_is_in_one_pair_at_most(before, after):
    for space in diff_memory(before, after).spaces:
        for usage, side in ((before, "before"), (after, "after")):
            own = usage.space(space.color)
            there = Counter((i.name, i.bytes) for i in own.items) if own else Counter()
            found = Counter(
                (b.name, b.size_bytes) for p in space.buffers if (b := getattr(p, side))
            )
            assert found <= there


# ---- lines -------------------------------------------------------------------------------------


def lines(*found: tuple[int, str], file: str = "/p/a.py", function: str = "f"):
    return {SourceLine(file, number, function): Counter({path: 1}) for number, path in found}


def pairs(before, after):
    match = match_lines(before, after)
    of_before = {key: line.line for line, key in match.before.items()}
    return sorted(
        (of_before[key], line.line) for line, key in match.after.items() if key in of_before
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            lines((10, "dot"), (12, "dot"), (14, "add")),
            lines((15, "dot"), (17, "dot"), (19, "add")),
            [(10, 15), (12, 17), (14, 19)],
            id="all lines moved down",
        ),
        pytest.param(
            lines((10, "dot"), (12, "exp"), (14, "dot")),
            lines((10, "dot"), (11, "tanh"), (13, "exp"), (15, "dot")),
            [(10, 10), (12, 13), (14, 15)],
            id="a line was inserted",
        ),
        pytest.param(
            lines((10, "jit(f)/dot"), (11, "jit(f)/add")),
            lines((20, "jit(f)/jvp(l)/dot"), (21, "jit(f)/jvp(l)/add")),
            [(10, 20), (11, 21)],
            id="the paths got a scope",
        ),
        pytest.param(
            lines((10, "dot")), lines((10, "exp")), [(10, 10)], id="another operation at a line"
        ),
        pytest.param(lines((10, "dot")), lines((20, "exp")), [], id="nothing in common"),
        pytest.param(
            lines((10, "dot"), file="/one/a.py"),
            lines((11, "dot"), file="/two/a.py"),
            [(10, 11)],
            id="another folder",
        ),
        pytest.param(
            lines((10, "dot"), file="/p/a.py"),
            lines((11, "dot"), file="/p/b.py"),
            [(10, 11)],
            id="another name of the file",
        ),
        pytest.param(
            lines((10, "dot"), function="f"),
            lines((11, "dot"), function="g"),
            [(10, 11)],
            id="another name of the function",
        ),
        pytest.param(
            {**lines((1, "dot")), **lines((1, "dot"), file="/p/c.py")},
            {**lines((1, "dot"), file="/q/c.py"), **lines((1, "dot"), file="/q/a.py")},
            [(1, 1), (1, 1)],
            id="two files in another folder",
        ),
    ],
)
def test_lines_are_known_again(before, after, expected):
    assert pairs(before, after) == expected


sightings = st.dictionaries(
    st.builds(
        SourceLine,
        st.sampled_from(["/p/a.py", "/p/b.py"]),
        st.integers(0, 9),
        st.sampled_from("fg"),
    ),
    st.dictionaries(st.sampled_from(["x/dot", "x/add", "dot"]), st.integers(1, 2), min_size=1).map(
        Counter
    ),
    max_size=10,
)


@given(sightings, sightings)
def test_no_line_has_two_counterparts(before, after):
    match = match_lines(before, after)
    for keys, side in ((match.before, before), (match.after, after)):
        assert len(set(keys.values())) == len(keys)
        assert set(keys) == {line for line in side if line.line}


@given(sightings)
def test_lines_that_did_not_move_are_their_own_counterparts(found):
    match = match_lines(found, found)
    assert match.before == match.after
