"""Locations as MLIR prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.program.locations import Frame, Location, parse_location, quote, read_string


def test_a_traced_operation_has_its_name_and_its_stack():
    text = (
        'loc("jit(step)/mul"(callsite("loss"("train.py":8:6 to :25) '
        'at "step"("train.py":13:8 to 14:37))))'
    )
    assert parse_location(text) == Location(
        ("jit(step)/mul",),
        (
            Frame("train.py", "loss", 8, 6, 8, 25),
            Frame("train.py", "step", 13, 8, 14, 37),
        ),
    )


def test_names_around_names_are_all_kept():
    text = 'loc("print:"("jit(f)/print"(callsite("f"("a.py":1:2) at "g"("b.py":3:4)))))'
    assert parse_location(text).names == ("print:", "jit(f)/print")


def test_without_tracebacks_the_name_stands_around_the_file():
    location = parse_location('loc("jit(f)/add"("a.py":3:4))')
    assert location.names == ("jit(f)/add",)
    assert location.frames == (Frame("a.py", "", 3, 4, 3, 4),)


def test_of_fused_locations_the_one_with_frames_counts():
    location = parse_location('loc(fused<"x">["a", "b"("c"("f.py":1:2))])')
    assert location.frames == (Frame("f.py", "c", 1, 2, 1, 2),)


@pytest.mark.parametrize("text", ["loc(unknown)", 'loc("x")'])
def test_places_without_lines_have_no_frames(text):
    assert parse_location(text).frames == ()


@pytest.mark.parametrize("text", ["", "loc(", 'loc("x"', "loc(callsite(unknown))", "loc(x)"])
def test_what_is_not_a_location_is_refused(text):
    with pytest.raises(ValueError, match=r"location|expected"):
        parse_location(text)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_survives_quoting(name):
    text, end = read_string(quote(name) + "(", 0)
    assert text == name
    assert end == len(quote(name))


names = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1)
frames = st.builds(
    Frame, names, names, st.integers(1, 9999), st.integers(0, 99), st.just(0), st.just(0)
)


@given(st.lists(names, min_size=1, max_size=3), st.lists(frames, min_size=2, max_size=5))
def test_what_is_printed_in_this_grammar_is_read_back(some_names, stack):
    text = _stack_text(stack)
    for name in reversed(some_names):
        text = f"{quote(name)}({text})"
    location = parse_location(f"loc({text})")
    assert location.names == tuple(some_names)
    assert [(f.file, f.function, f.line, f.column) for f in location.frames] == [
        (f.file, f.function, f.line, f.column) for f in stack
    ]


def _stack_text(stack):
    inner = f"{quote(stack[0].function)}({quote(stack[0].file)}:{stack[0].line}:{stack[0].column})"
    if len(stack) == 1:
        return inner
    return f"callsite({inner} at {_stack_text(stack[1:])})"
