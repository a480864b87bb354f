"""Reads in a loop are put off where the loop does not need them, on texts."""

from __future__ import annotations

import ast
import textwrap

import pytest

from changes.trying import as_file, edited
from vtpu.changes.rewriting.deferring import CannotDefer, Deferring
from vtpu.changes.source.loops import loops_around
from vtpu.changes.source.reads import reads_within

HEAD = "import jax\nimport numpy as np\n"


def deferred(loop: str, *, largest_bytes: int = 4) -> str:
    """A text whose first loop's reads are put off, without its head."""
    file = as_file(HEAD + textwrap.dedent(loop).strip() + "\n")
    statements = [
        n
        for n in ast.walk(file.tree)
        if isinstance(n, ast.Expr | ast.Assign | ast.AugAssign | ast.If) and loops_around(file, n)
        for value in [n.test if isinstance(n, ast.If) else n.value]
        if reads_within(file, value)
    ]
    loop_of = loops_around(file, statements[0])[0]
    deferring = Deferring(file=file, loop=loop_of, largest_bytes=largest_bytes)
    for statement in statements:
        deferring.put_off(statement)
    return edited(file.text, deferring.all_edits()).removeprefix(HEAD)


def as_text(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def test_what_is_shown_is_read_every_50_steps() -> None:
    assert deferred("""
        for i in range(6):
            w, loss = step(w)
            print(i, float(loss))
            print("lr", float(lr))
            w = w * 2
            bar.set_postfix(loss=loss.item())
    """) == as_text("""
        for i in range(6):
            w, loss = step(w)
            if i % 50 == 0:
                print(i, float(loss))
                print("lr", float(lr))
            w = w * 2
            if i % 50 == 0:
                bar.set_postfix(loss=loss.item())
    """)  # fmt: skip


def test_a_loop_without_a_counter_gets_one() -> None:
    assert "for step, (x, y) in enumerate(batches()):" in deferred("""
        for x, y in batches():
            print(float(x))
    """)
    assert "if n % 50 == 0:" in deferred(
        """
        n = 0
        while n < 10:
            print(float(f(x)) if n else np.asarray(x))
            n += 1
    """.replace("f(x)", "x")
    )


def test_what_is_collected_is_read_behind_the_loop() -> None:
    assert deferred("""
        def train(self):
            losses = []
            for i in range(6):
                w, loss = step(w)
                losses.append(loss.mean().item())
            return losses
    """) == as_text("""
        def train(self):
            losses = []
            for i in range(6):
                w, loss = step(w)
                losses.append(loss.mean())
            losses[:] = [one.item() for one in losses]
            return losses
    """)  # fmt: skip


def test_a_name_that_holds_what_was_read_is_followed() -> None:
    assert deferred("""
        history = []
        total = 0.0
        for i in range(4):
            w, loss = step(w)
            value = float(loss)
            history.append(value)
            total += value
            print(f"loss {value:.3f}")
            print("mean", total / (i + 1))
        print(history, total)
    """) == as_text("""
        history = []
        total = 0.0
        for i in range(4):
            w, loss = step(w)
            value = loss
            history.append(value)
            total += value
            if i % 50 == 0:
                value = float(value)
                total = float(total)
                print(f"loss {value:.3f}")
                print("mean", total / (i + 1))
        total = float(total)
        history[:] = [float(one) for one in history]
        print(history, total)
    """)  # fmt: skip


def test_what_only_the_last_turn_keeps_is_read_once() -> None:
    assert deferred("""
        for i in range(5):
            w, loss = step(w)
            counts, _ = np.histogram(np.asarray(w), bins=4)
        print(counts.sum())
    """, largest_bytes=1 << 20) == as_text("""
        for i in range(5):
            w, loss = step(w)
        counts, _ = np.histogram(np.asarray(w), bins=4)
        print(counts.sum())
    """)  # fmt: skip


def test_what_is_computed_only_to_be_shown_waits_too() -> None:
    assert deferred("""
        for i in range(5):
            w, loss = step(w)
            norm = np.linalg.norm(np.asarray(w))
            print(norm)
    """) == as_text("""
        for i in range(5):
            w, loss = step(w)
            if i % 50 == 0:
                norm = np.linalg.norm(np.asarray(w))
                print(norm)
    """)  # fmt: skip


def test_a_read_that_waits_already_stays() -> None:
    text = """
        for i in range(5):
            w, loss = step(w)
            if i % 10 == 0:
                print(float(loss))
    """
    assert deferred(text) == as_text(text)


def test_a_name_is_read_where_it_is_shown_rarely() -> None:
    assert deferred("""
        for i in range(5):
            w, loss = step(w)
            loss = float(loss)
            if i % 10 == 0:
                print(loss)
    """) == as_text("""
        for i in range(5):
            w, loss = step(w)
            if i % 10 == 0:
                loss = float(loss)
                print(loss)
    """)  # fmt: skip


@pytest.mark.parametrize(
    ("turn", "why"),
    [
        ("value = float(loss)\n    if value < 0.01:\n        break", "value is needed in line 6"),
        ("if float(loss) < 0.001:\n        break", "goes on by what it reads"),
        ("seen.append(float(loss))\n    print(max(seen))", "seen is used in the loop"),
        ("seen.append((i, float(loss)))", "more than what it reads"),
        ("unknown.append(float(loss))", "not known to be a list"),
        ("w = train(float(loss))", "goes on by what it reads"),
        ("print(float(train(w)))", "goes on by what it reads"),
        ("print(float(loss)); print(i)", "more than one statement"),
    ],
)
def test_a_read_that_the_loop_needs_stays(turn: str, why: str) -> None:
    with pytest.raises(CannotDefer, match=why):
        deferred(f"seen = []\nfor i in range(4):\n    {turn}\n")


def test_large_arrays_are_not_collected_on_the_device() -> None:
    with pytest.raises(CannotDefer, match="too large"):
        deferred("x = []\nfor i in range(4):\n    x.append(np.asarray(w))\n", largest_bytes=1 << 20)
