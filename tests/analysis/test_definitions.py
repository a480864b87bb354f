"""Programs of one name that come from one function, and those that do not."""

from recordings import LIBRARY, program, recording, stack
from vtpu.analysis.run.definitions import by_definition
from vtpu.recording.recording import FIRST_CALL

FILE = "/project/train.py"
MODULE = f'"<module>"("{FILE}":9:4)'
AGAIN = "different input types:\n* at x, now f32[4] and before f32[3]"


def place(line, function="<lambda>", caller=MODULE, inner=""):
    """An operation on `line` of a function that `caller` called."""
    frame = f'"{function}"("{FILE}":{line}:20)'
    at = f"callsite({inner} at callsite({frame} at {caller}))" if inner else (
        f"callsite({frame} at {caller})"
    )  # fmt: skip
    return f'loc("jit({function.rsplit(".")[-1]})/add"({at}))'


def traced(number, *operations, name="jit__lambda", caller=MODULE, **fields):
    """A program with the places of its operations, its own place first."""
    own = f'loc("jit(<lambda>)"({caller}))'
    return program(number, name, locations=(own, *operations, "loc(unknown)"), **fields)


def groups_of(*programs, **parts):
    found = by_definition(recording(programs=programs, **parts))
    return [[p.number for p in group] for group in found]


def test_lambdas_of_different_lines_are_different_functions():
    found = groups_of(traced(1, place(5)), traced(2, place(6), reason=FIRST_CALL))
    assert found == [[1], [2]]


def test_a_function_of_other_types_is_the_same_function():
    assert groups_of(traced(1, place(5)), traced(2, place(5), reason=AGAIN)) == [[1, 2]]


def test_a_lambda_that_is_made_again_on_its_line_is_the_same_function():
    assert groups_of(traced(1, place(5)), traced(2, place(5), reason=FIRST_CALL)) == [[1, 2]]


def test_a_function_that_another_one_calls_does_not_tell_where_the_traced_one_is():
    helper = f'"helper"("{FILE}":2:4)'
    one, other = place(5, inner=helper), place(6, inner=helper)
    assert groups_of(traced(1, one), traced(2, other, reason=FIRST_CALL)) == [[1], [2]]


def test_functions_of_one_name_in_different_functions_are_different():
    one, other = place(5, "make_a.<locals>.step"), place(8, "make_b.<locals>.step")
    found = groups_of(
        traced(1, one, name="jit_step"), traced(2, other, name="jit_step", reason=FIRST_CALL)
    )
    assert found == [[1], [2]]


def test_a_function_that_traced_its_other_branch_is_the_same_function():
    first, second = place(5, "f"), place(7, "f")
    found = groups_of(
        traced(1, first, name="jit_f"),
        traced(2, second, name="jit_f", reason="different value of static args"),
    )
    assert found == [[1, 2]]


def test_a_function_that_is_called_from_elsewhere_is_the_same_function():
    elsewhere = f'"<module>"("{FILE}":30:0)'
    found = groups_of(
        traced(1, place(5)),
        traced(2, place(5, caller=elsewhere), caller=elsewhere, reason=AGAIN),
    )
    assert found == [[1, 2]]


def test_operations_of_jaxs_own_are_known_by_name():
    own = f'loc("jit(add)/add"({MODULE}))'
    stacks = (stack((LIBRARY, 5), (FILE, 9)), stack((LIBRARY, 5), (FILE, 12)))
    one = program(1, "jit_add", stack=1, locations=(own, own))
    other = program(2, "jit_add", stack=2, locations=(own, own))
    assert groups_of(one, other, stacks=stacks) == [[1, 2]]


def test_functions_without_operations_are_told_apart_by_who_calls_them():
    stacks = (stack((LIBRARY, 5), (FILE, 9)), stack((LIBRARY, 5), (FILE, 12)))
    one, other, again = (
        traced(1, stack=1, reason=FIRST_CALL),
        traced(2, stack=2, reason=FIRST_CALL),
        traced(3, stack=1, reason=FIRST_CALL),
    )
    assert groups_of(one, other, again, stacks=stacks) == [[1, 3], [2]]


def test_what_failed_and_was_tried_again_is_one_function():
    stacks = (stack((LIBRARY, 5), (FILE, 9)),)
    failed = program(2, "jit__lambda", stack=1, error="no room", reason=FIRST_CALL)
    found = groups_of(traced(1, place(5)), failed, traced(3, place(9), stack=1), stacks=stacks)
    assert found == [[1], [2, 3]]


def test_frames_that_jax_left_out_do_not_hide_the_function():
    deep = f'"main"("{FILE}":40:0)'
    cut = f'loc("jit(<lambda>)/add"("<lambda>"("{FILE}":5:20)))'
    other = f'loc("jit(<lambda>)/add"("<lambda>"("{FILE}":6:20)))'
    found = groups_of(traced(1, cut, caller=deep), traced(2, other, caller=deep, reason=FIRST_CALL))
    assert found == [[1], [2]]
