"""Edits of one text go together, or say that they do not."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.changes.edits import (
    Conflict,
    Edit,
    Helper,
    Import,
    Keyword,
    Replace,
    Wrap,
    diff_of,
    render,
)

TEXT = '''"""A program."""
from __future__ import annotations

import jax


@jax.jit
def step(a, b):
    return jax.lax.scan(body, a, b)


g = jax.jit(step, static_argnums=(1,))
h = jax.jit(
    step,
)
'''


def place(words: str) -> tuple[int, int]:
    begin = TEXT.index(words)
    return begin, begin + len(words)


def replaced(words: str, by: str) -> Replace:
    begin, end = place(words)
    return Replace(file="x.py", begin=begin, end=end, text=by)


def keyword(words: str, name: str, value: str, *, is_call: bool = True) -> Keyword:
    begin, end = place(words)
    return Keyword(file="x.py", begin=begin, end=end, is_call=is_call, name=name, value=value)


def wrapped(words: str, before: str, after: str = ")") -> Wrap:
    begin, end = place(words)
    return Wrap(file="x.py", begin=begin, end=end, before=before, after=after)


def test_without_edits_a_text_stays_as_it_is() -> None:
    assert render(TEXT, []) == TEXT


def test_a_bare_decorator_becomes_a_partial_with_all_its_keywords() -> None:
    edits = [
        keyword("jax.jit", "donate_argnums", "(0,)", is_call=False),
        keyword("jax.jit", "out_shardings", "None", is_call=False),
    ]
    text = render(TEXT, edits)
    assert "@functools.partial(jax.jit, donate_argnums=(0,), out_shardings=None)" in text
    assert text.count("import functools") == 1
    ast.parse(text)


def test_a_call_gets_a_keyword_behind_its_last_argument() -> None:
    text = render(TEXT, [keyword("jax.jit(step, static_argnums=(1,))", "donate_argnums", "0")])
    assert "g = jax.jit(step, static_argnums=(1,), donate_argnums=0)" in text


def test_a_call_that_ends_with_a_comma_gets_no_second_one() -> None:
    text = render(TEXT, [keyword("jax.jit(\n    step,\n)", "donate_argnums", "0")])
    assert ast.parse(text)
    assert "step, donate_argnums=0" in text


def test_dictionaries_of_one_keyword_are_joined() -> None:
    call = "jax.jit(step, static_argnums=(1,))"
    edits = [keyword(call, "compiler_options", text) for text in ("{'a': 1}", "{'b': 2}")]
    assert "compiler_options={'a': 1, 'b': 2}" in render(TEXT, edits)


@pytest.mark.parametrize("second", ["{'a': 2}", "(1,)"])
def test_two_values_of_one_keyword_are_a_conflict(second: str) -> None:
    call = "jax.jit(step, static_argnums=(1,))"
    with pytest.raises(Conflict):
        render(TEXT, [keyword(call, "compiler_options", v) for v in ("{'a': 1}", second)])


def test_of_two_wraps_of_one_text_the_later_is_outside() -> None:
    edits = [wrapped("body", "jax.checkpoint("), wrapped("body", "outer(")]
    assert "scan(outer(jax.checkpoint(body)), a, b)" in render(TEXT, edits)


def test_two_replacements_of_one_text_are_a_conflict() -> None:
    with pytest.raises(Conflict):
        render(TEXT, [replaced("scan(body", "x"), replaced("body, a", "y")])


def test_an_edit_inside_of_what_another_replaces_is_a_conflict() -> None:
    with pytest.raises(Conflict):
        render(TEXT, [replaced("jax.lax.scan(body, a, b)", "x"), wrapped("body", "f(")])


def test_the_same_change_twice_is_made_once() -> None:
    edit = replaced("body", "other")
    assert render(TEXT, [edit, edit]) == render(TEXT, [edit])


def test_imports_and_helpers_stand_behind_the_imports_once() -> None:
    helper = Helper(file="x.py", name="h", source="def h():\n    return 1")
    edits: list[Edit] = [
        Import(file="x.py", statement="import jax"),
        Import(file="x.py", statement="import numpy as np"),
        helper,
        helper,
    ]
    text = render(TEXT, edits)
    body = ast.parse(text).body
    assert [type(n).__name__ for n in body[:5]] == ["Expr", "ImportFrom", "Import", "Import", "FunctionDef"]  # fmt: skip
    assert text.count("import jax\n") == 1
    assert "    return 1\n\n\n@jax.jit" in text


def test_a_file_without_imports_gets_them_behind_its_docstring() -> None:
    text = render('"""Doc."""\nx = 1\n', [Import(file="x.py", statement="import functools")])
    assert text == '"""Doc."""\nimport functools\nx = 1\n'


def test_a_diff_shows_the_lines() -> None:
    after = render(TEXT, [replaced("body", "other")])
    diff = diff_of("x.py", TEXT, after)
    assert "-    return jax.lax.scan(body, a, b)\n+    return jax.lax.scan(other, a, b)" in diff


SPANS = st.lists(st.integers(0, 60), min_size=2, max_size=12, unique=True).map(sorted)


@given(SPANS, st.randoms(use_true_random=False))
def test_replacements_apart_from_each_other_come_out_the_same_in_any_order(spans, random) -> None:
    text = "".join(chr(97 + i % 26) for i in range(61))
    pairs = list(zip(spans[::2], spans[1::2], strict=False))
    edits: list[Edit] = [Replace(file="x", begin=b, end=e, text=f"<{b}>") for b, e in pairs]
    shuffled = list(edits)
    random.shuffle(shuffled)
    expected = text
    for begin, end in reversed(pairs):
        expected = expected[:begin] + f"<{begin}>" + expected[end:]
    assert render(text, edits) == render(text, shuffled) == expected


def test_an_import_among_others_is_there_already() -> None:
    text = "import jax, jax.numpy as jnp\n\nx = 1\n"
    assert render(text, [Import(file="f", statement="import jax")]) == text
    more = render(text, [Import(file="f", statement="import jax.numpy")])
    assert "import jax.numpy\n" in more
