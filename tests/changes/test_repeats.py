"""Checkpoints go around what repeats, however it is written."""

from __future__ import annotations

import pytest

from changes.checkpoints_tried import checkpointed, frame, repeats, saved
from vtpu.changes.rewriting.checkpoints import NotUnderstood, has_checkpoint, with_checkpoint
from vtpu.changes.rewriting.policies import DOTS, NOTHING
from vtpu.changes.source.repeats import RepeatKind

SCAN = """
from jax import lax
import jax.numpy as jnp

def body(x, w):
    return jnp.tanh(x @ w), None

def loss(ws, x):
    return lax.scan(body, x, ws)[0].sum()
"""
LOOP = """
import jax

def block(p, x, scale):
    return x + jax.nn.gelu(x @ p) * scale

def loss(params, x):
    for p in params:
        x = block(p, x, 2.0)
    return x.sum()
"""
BODY = """
import jax

def loss(params, x):
    total = 0.0
    for i, p in enumerate(params):
        h = x @ p
        if i % 2:
            h = jax.nn.gelu(h)
        x = x + h

        total += h.mean()
    return x.sum() + total
"""
CALLS = """
import jax

def block(p, x):
    return x + jax.nn.gelu(x @ p)

def loss(p, x):
    x = block(p["down"], x)
    x = block(p["up"], x)
    return x.sum()
"""


def test_the_body_of_a_scan_is_put_under_a_checkpoint() -> None:
    after = checkpointed(
        SCAN, saved(frame(SCAN, "x @ w", "body"), frame(SCAN, "lax.scan(body, x, ws)", "loss"))
    )
    assert "lax.scan(jax.checkpoint(body, prevent_cse=False), x, ws)" in after
    assert "import jax\n" in after


def test_a_policy_is_spelled_as_the_file_imports_jax() -> None:
    text = LOOP.replace("import jax\n", "import jax as j\n").replace("jax.nn", "j.nn")
    made = saved(frame(text, "x @ p", "block"), frame(text, "block(p, x, 2.0)", "loss"))
    after = checkpointed(text, made, kind=RepeatKind.CALL, policy=DOTS)
    assert (
        "j.checkpoint(lambda: block(p, x, 2.0), policy=j.checkpoint_policies.dots_saveable)()"
        in after
    )


def test_a_scan_whose_body_is_a_keyword_is_found() -> None:
    text = SCAN.replace("(body, x, ws)", "(f=body, init=x, xs=ws)")
    made = saved(
        frame(text, "x @ w", "body"), frame(text, "lax.scan(f=body, init=x, xs=ws)", "loss")
    )
    assert "f=jax.checkpoint(body, prevent_cse=False)" in checkpointed(text, made)


def test_a_block_that_a_loop_calls_is_put_under_a_checkpoint() -> None:
    made = saved(frame(LOOP, "x @ p", "block"), frame(LOOP, "block(p, x, 2.0)", "loss"))
    after = checkpointed(LOOP, made, kind=RepeatKind.CALL)
    assert "        x = jax.checkpoint(lambda: block(p, x, 2.0))()\n" in after


def test_the_body_of_a_loop_becomes_a_function_of_what_it_carries() -> None:
    after = checkpointed(BODY, saved(frame(BODY, "x @ p", "loss")))
    assert "        def turn(total, x):\n            h = x @ p\n" in after
    assert (
        "            return total, x\n\n        total, x = jax.checkpoint(turn)(total, x)\n"
        in after
    )
    assert "\n\n            total += h.mean()\n" in after


def test_what_a_body_assigns_only_sometimes_goes_in_too() -> None:
    text = BODY.replace("x = x + h\n", "x = x + h\n        if i > 3:\n            late = x\n")
    text = text.replace("return x.sum()", "return late.sum()")
    after = checkpointed(text, saved(frame(text, "x @ p", "loss")))
    assert "late, total, x = jax.checkpoint(turn)(total, x, late)" in after


@pytest.mark.parametrize("line", ["outs.append(h)", "caches[i] = h", "if i > 3: break", "return x"])
def test_a_body_that_does_more_than_assign_is_left_as_it_is(line: str) -> None:
    text = BODY.replace("x = x + h\n", f"x = x + h\n        {line}\n")
    found = repeats(text, saved(frame(text, "x @ p", "loss")))
    with pytest.raises(NotUnderstood, match="cannot become a function"):
        with_checkpoint(found[0], NOTHING)


def test_a_function_that_is_called_twice_is_put_under_a_checkpoint_each_time() -> None:
    inside = frame(CALLS, "x @ p", "block")
    made = [
        saved(inside, frame(CALLS, f'block(p["{name}"], x)', "loss")) for name in ("down", "up")
    ]
    after = checkpointed(CALLS, *made)
    assert 'jax.checkpoint(lambda: block(p["down"], x))()' in after
    assert 'jax.checkpoint(lambda: block(p["up"], x))()' in after


def test_a_function_that_is_called_once_is_no_repeat() -> None:
    made = saved(frame(CALLS, "x @ p", "block"), frame(CALLS, 'block(p["up"], x)', "loss"))
    assert repeats(CALLS, made) == []


def test_of_calls_in_another_ones_arguments_only_the_outer_is_wrapped() -> None:
    text = LOOP.replace("block(p, x, 2.0)", "block(p, block(p, x, 1.0), 2.0)")
    inside = frame(text, "x @ p", "block")
    outer = frame(text, "block(p, block(p, x, 1.0), 2.0)", "loss")
    made = [saved(inside, frame(text, "block(p, x, 1.0)", "loss")), saved(inside, outer)]
    after = checkpointed(text, *made, kind=RepeatKind.CALL)
    assert after.count("jax.checkpoint") == 1


def test_the_loop_over_training_steps_is_outside_of_what_is_differentiated() -> None:
    text = (
        SCAN
        + """
grad = jax.value_and_grad(loss)
def step(ws, x):
    return grad(ws, x)
for _ in range(3):
    step(ws, x)
"""
    )
    made = saved(
        frame(text, "x @ w", "body"),
        frame(text, "lax.scan(body, x, ws)", "loss"),
        frame(text, "grad(ws, x)", "step", number=0),
        frame(text, "step(ws, x)", "<module>", number=1),
    )
    assert [r.kind for r in repeats(text, made)] == [RepeatKind.BODY]


def test_a_loop_over_microbatches_is_outside_too() -> None:
    text = """
import jax
def step(params, batches):
    for batch in batches:
        g = jax.grad(loss)(params, batch)
    return g
def loss(params, x):
    return (x @ params).sum()
"""
    made = saved(
        frame(text, "x @ params", "loss"), frame(text, "jax.grad(loss)(params, batch)", "step")
    )
    assert repeats(text, made) == []


@pytest.mark.parametrize(
    "how",
    [
        "jax.checkpoint(body)",
        "jax.remat(body, policy=None)",
        "functools.partial(jax.checkpoint, policy=None)(body)",
    ],
)
def test_a_checkpoint_that_is_there_is_seen(how: str) -> None:
    text = SCAN.replace("def loss", f"import jax, functools\ninner = {how}\ndef loss").replace(
        "scan(body", "scan(inner"
    )
    made = saved(frame(text, "x @ w", "body"), frame(text, "lax.scan(inner, x, ws)", "loss"))
    assert has_checkpoint(repeats(text, made)[0])


def test_a_decorated_block_has_its_checkpoint() -> None:
    text = LOOP.replace("def block", "@jax.checkpoint\ndef block")
    made = saved(frame(text, "x @ p", "block"), frame(text, "block(p, x, 2.0)", "loss"))
    assert all(has_checkpoint(r) for r in repeats(text, made) if r.kind is RepeatKind.CALL)


def test_a_call_over_several_lines_is_wrapped_whole() -> None:
    text = LOOP.replace(
        "block(p, x, 2.0)", "block(\n            p, x,\n            2.0,\n        )"
    )
    found = frame(text, "block(", "loss", number=1)
    last = found.line + 3
    call = type(found)("prog.py", "loss", found.line, found.column, last, 9)
    after = checkpointed(text, saved(frame(text, "x @ p", "block"), call), kind=RepeatKind.CALL)
    assert "x = jax.checkpoint(lambda: block(" in after
    assert "        ))()\n" in after
