from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlo_texts import module_of, text_of
from vtpu.program.modules import Instruction, Module
from vtpu.program.trip_counts import runs, trip_count
from vtpu.reading.hlo_text import read_hlo_text

HOLDS: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "NE": operator.ne,
}
_PATIENCE = 400


def loops(module: Module) -> list[Instruction]:
    return [i for i in module.by_id.values() if i.opcode == "while"]


def only_count(module: Module) -> int | None:
    (loop,) = loops(module)
    return trip_count(module, loop)


def run(begin: int, end: int, step: int, direction: str) -> int | None:
    """How often a loop runs, by running it; None when it does not come to an end."""
    for count in range(_PATIENCE):
        if not HOLDS[direction](begin + count * step, end):
            return count
    return None


def constant(name: str, value: int, ways: st.DataObject) -> tuple[list[str], str]:
    """A scalar constant as compiled programs have it: itself, through copies, or handed in a tuple."""
    way = ways.draw(st.sampled_from(["constant", "copy", "copies", "bitcast", "sum", "tuple"]))
    lines = [f"{name}.c = s32[] constant({value})"]
    match way:
        case "copy":
            lines.append(f"{name} = s32[] copy({name}.c)")
        case "copies":
            lines += [
                f"{name}.s = (s32[], s32[], u32[]) copy-start({name}.c)",
                f"{name} = s32[] copy-done({name}.s)",
            ]
        case "bitcast":
            lines.append(f"{name} = s32[] bitcast({name}.c)")
        case "sum":
            lines = [
                f"{name}.a = s32[] constant({value - 7})",
                f"{name}.b = s32[] constant(7)",
                f"{name} = s32[] add({name}.a, {name}.b)",
            ]
        case "tuple":
            lines += [
                f"{name}.t = (s32[], s32[]) tuple({name}.c, {name}.c)",
                f"{name} = s32[] get-tuple-element({name}.t), index=1",
            ]
        case _:
            return lines, f"{name}.c"
    return lines, name


@given(
    st.data(),
    st.integers(-20, 20),
    st.integers(-20, 20),
    st.integers(-3, 3),
    st.sampled_from(sorted(HOLDS)),
)
@settings(max_examples=250, deadline=None)
def test_a_loop_runs_as_often_as_running_it_says(
    data: st.DataObject, begin: int, end: int, step: int, direction: str
) -> None:
    place = data.draw(st.integers(0, 2), "index of the variable")
    is_carried = data.draw(st.booleans(), "the limit is handed in")
    is_flipped = data.draw(st.booleans(), "the limit is compared first")
    is_fused = data.draw(st.booleans(), "the comparison is in a fusion")
    lines, first = constant("begin", begin, data)
    more, last = constant("end", end, data)
    limit = f"limit = s32[] get-tuple-element(p), index={(place + 1) % 3}"
    inside, stop = constant("stop", end, data)
    compared = "v, limit" if is_carried else f"v, {stop}"
    flips = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}
    if is_flipped:
        compared = ", ".join(reversed(compared.split(", ")))
    comparison = f"compare(x, y), direction={flips[direction] if is_flipped else direction}"
    kind = f"fusion({compared}), kind=kLoop, calls=test"
    if not is_fused:
        kind = comparison.replace("x, y", compared)
    increments, by = constant("by", step, data)
    order = ["next", "same", "same2"]
    order = [order[(i - place) % 3] for i in range(3)]
    tuple_ = "(s32[], s32[], s32[])"
    newline = "\n "
    before = f"""
    test {{ x = s32[] parameter(0)
      y = s32[] parameter(1)
      ROOT c = pred[] {comparison} }}
    condition {{ p = {tuple_} parameter(0)
      v = s32[] get-tuple-element(p), index={place}
      {limit if is_carried else newline.join(inside)}
      ROOT c = pred[] {kind} }}
    body {{ p = {tuple_} parameter(0)
      v = s32[] get-tuple-element(p), index={place}
      same = s32[] get-tuple-element(p), index={(place + 1) % 3}
      same2 = s32[] get-tuple-element(p), index={(place + 2) % 3}
      {newline.join(increments)}
      w = s32[] copy(v)
      next = s32[] add(w, {by})
      ROOT t = {tuple_} tuple({", ".join(order)}) }}"""
    handed = [first, last, first]
    handed = [handed[(i - place) % 3] for i in range(3)]
    module = module_of(
        *lines,
        *more,
        f"t = {tuple_} tuple({', '.join(handed)})",
        f"ROOT w = {tuple_} while(t), condition=condition, body=body",
        before=before,
    )
    found = only_count(module)
    assert found == (run(begin, end, step, direction) if step else None)


def counted_loop(name: str, limit: int, work: str = "", step: int = 1) -> str:
    return f"""
    {name}.condition {{ p = (s32[], f32[8]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      n = s32[] constant({limit})
      ROOT c = pred[] compare(v, n), direction=LT }}
    {name}.body {{ p = (s32[], f32[8]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      x = f32[8] get-tuple-element(p), index=1
      one = s32[] constant({step})
      m = s32[] add(v, one)
      {work or "y = f32[8] negate(x)"}
      ROOT t = (s32[], f32[8]) tuple(m, y) }}"""


def in_loop(name: str, value: str, result: str = "y") -> str:
    return (
        f"z = s32[] constant(0)\n i = (s32[], f32[8]) tuple(z, {value})\n"
        f" l = (s32[], f32[8]) while(i), condition={name}.condition, body={name}.body\n"
        f" {result} = f32[8] get-tuple-element(l), index=1"
    )


def test_a_loop_in_a_loop_runs_as_often_as_both_together() -> None:
    inner = counted_loop("inner", 10)
    outer = counted_loop("outer", 6, in_loop("inner", "x"), step=2)
    module = module_of(
        "a = f32[8] parameter(0)",
        *in_loop("outer", "a", "b").split("\n"),
        "ROOT r = f32[8] negate(b)",
        before=inner + outer,
    )
    found = {module.computations[c].name: n for c, n in runs(module).items()}
    assert found == {
        "e": 1,
        "outer.body": 3,
        "outer.condition": 4,
        "inner.body": 30,
        "inner.condition": 33,
    }


def test_a_limit_that_an_enclosing_loop_hands_in_unchanged_is_known() -> None:
    before = """
    inner.condition { p = (s32[], s32[]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1
      ROOT c = pred[] compare(v, n), direction=LT }
    inner.body { p = (s32[], s32[]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1
      one = s32[] constant(1)
      m = s32[] add(v, one)
      ROOT t = (s32[], s32[]) tuple(m, n) }
    condition { p = (s32[], s32[]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      n = s32[] constant(2)
      ROOT c = pred[] compare(v, n), direction=LT }
    body { p = (s32[], s32[]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1
      one = s32[] constant(1)
      m = s32[] add(v, one)
      z = s32[] constant(0)
      i = (s32[], s32[]) tuple(z, n)
      l = (s32[], s32[]) while(i), condition=inner.condition, body=inner.body
      k = s32[] get-tuple-element(l), index=1
      ROOT t = (s32[], s32[]) tuple(m, k) }"""
    module = module_of(
        "z = s32[] constant(0)",
        "n = s32[] constant(5)",
        "i = (s32[], s32[]) tuple(z, n)",
        "ROOT l = (s32[], s32[]) while(i), condition=condition, body=body",
        before=before,
    )
    found = {module.computations[c].name: n for c, n in runs(module).items()}
    assert (found["body"], found["inner.body"]) == (2, 10)


def test_a_loop_whose_limit_is_an_argument_is_not_known_nor_what_is_in_it() -> None:
    inner = counted_loop("inner", 10)
    before = (
        inner
        + """
    condition { p = (s32[], f32[8], s32[]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=2
      ROOT c = pred[] compare(v, n), direction=LT }
    body { p = (s32[], f32[8], s32[]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      x = f32[8] get-tuple-element(p), index=1
      n = s32[] get-tuple-element(p), index=2
      one = s32[] constant(1)
      m = s32[] add(v, one)
      """
        + in_loop("inner", "x")
        + "\n ROOT t = (s32[], f32[8], s32[]) tuple(m, y, n) }"
    )
    module = module_of(
        "n = s32[] parameter(0)",
        "a = f32[8] parameter(1)",
        "z = s32[] constant(0)",
        "i = (s32[], f32[8], s32[]) tuple(z, a, n)",
        "ROOT l = (s32[], f32[8], s32[]) while(i), condition=condition, body=body",
        before=before,
    )
    found = {module.computations[c].name: n for c, n in runs(module).items()}
    assert found == {
        "e": 1,
        "body": None,
        "condition": None,
        "inner.body": None,
        "inner.condition": None,
    }


def test_a_loop_between_two_ends_that_move_together_is_known() -> None:
    """From an argument to the argument and four, as a loop over a block of a longer one."""
    module = module_of(
        "n = s32[] parameter(0)",
        "four = s32[] constant(4)",
        "m = s32[] add(n, four)",
        "i = (s32[], s32[]) tuple(n, m)",
        "ROOT l = (s32[], s32[]) while(i), condition=condition, body=body",
        before="""
    condition { p = (s32[], s32[]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1
      ROOT c = pred[] compare(v, n), direction=LT }
    body { p = (s32[], s32[]) parameter(0)
      v = s32[] get-tuple-element(p), index=0
      n = s32[] get-tuple-element(p), index=1
      one = s32[] constant(1)
      m = s32[] add(v, one)
      ROOT t = (s32[], s32[]) tuple(m, n) }""",
    )
    assert only_count(module) == 4


def test_a_loop_that_ends_when_something_is_computed_is_not_known() -> None:
    module = module_of(
        "a = f32[] parameter(0)",
        "i = (f32[]) tuple(a)",
        "ROOT l = (f32[]) while(i), condition=condition, body=body",
        before="""
    condition { p = (f32[]) parameter(0)
      v = f32[] get-tuple-element(p), index=0
      n = f32[] constant(1)
      ROOT c = pred[] compare(v, n), direction=GT }
    body { p = (f32[]) parameter(0)
      v = f32[] get-tuple-element(p), index=0
      m = f32[] sqrt(v)
      ROOT t = (f32[]) tuple(m) }""",
    )
    assert only_count(module) is None


def test_a_count_that_the_back_end_keeps_is_taken() -> None:
    text = text_of(
        "n = s32[] parameter(0)",
        "a = f32[8] parameter(1)",
        "i = (s32[], f32[8]) tuple(n, a)",
        "ROOT l = (s32[], f32[8]) while(i), condition=l.condition, body=l.body, "
        'backend_config={"known_trip_count":{"n":"17"}}',
        before=counted_loop("l", 4),
    )
    assert only_count(read_hlo_text(text)) == 17


def test_every_branch_of_a_conditional_may_run() -> None:
    module = module_of(
        "p = pred[] parameter(0)",
        "a = f32[8] parameter(1)",
        "ROOT c = f32[8] conditional(p, a, a), true_computation=yes, false_computation=no",
        before="yes { a = f32[8] parameter(0)\n ROOT n = f32[8] negate(a) }\n"
        "no { a = f32[8] parameter(0)\n ROOT n = f32[8] exponential(a) }",
    )
    assert {module.computations[c].name: n for c, n in runs(module).items()} == {
        "e": 1,
        "yes": 1,
        "no": 1,
    }


def test_a_function_that_is_called_twice_runs_twice() -> None:
    module = module_of(
        "a = f32[8] parameter(0)",
        "b = f32[8] call(a), to_apply=f",
        "ROOT c = f32[8] call(b), to_apply=f",
        before="f { a = f32[8] parameter(0)\n ROOT n = f32[8] negate(a) }",
    )
    assert {module.computations[c].name: n for c, n in runs(module).items()} == {"e": 1, "f": 2}


@pytest.mark.parametrize("direction", ["EQ"])
def test_a_loop_that_runs_while_equal_runs_once(direction: str) -> None:
    text = text_of(
        "z = s32[] constant(4)",
        "a = f32[8] parameter(0)",
        "i = (s32[], f32[8]) tuple(z, a)",
        "ROOT l = (s32[], f32[8]) while(i), condition=l.condition, body=l.body",
        before=counted_loop("l", 4).replace("direction=LT", f"direction={direction}"),
    )
    assert only_count(read_hlo_text(text)) == 1
