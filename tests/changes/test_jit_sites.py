"""Where functions are jitted, in the ways that people write it."""

from __future__ import annotations

import pytest

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import render
from vtpu.changes.source.jit_sites import called_on, site_of

DEFINITION = "def step(params, x):\n    return params\n"

WAYS = {
    "decorator": f"@jax.jit\n{DEFINITION}",
    "decorator of an imported name": f"@jit\n{DEFINITION}",
    "decorator with keywords": f"@jax.jit(static_argnums=1)\n{DEFINITION}",
    "partial": f"@functools.partial(jax.jit, static_argnums=1)\n{DEFINITION}",
    "another library": f"@nnx.jit\n{DEFINITION}",
    "call": f"{DEFINITION}\nfast = jax.jit(step)\n",
    "call with keywords": f"{DEFINITION}\nfast = jax.jit(step, static_argnums=1)\n",
    "method": "class T:\n    def __init__(self):\n        self.run = jax.jit(self.step)\n    "
    + DEFINITION.replace("\n", "\n    "),
}


@pytest.mark.parametrize("text", WAYS.values(), ids=WAYS.keys())
def test_the_place_and_the_parameters_are_found(text: str) -> None:
    site = site_of(SourceFile("x.py", text), "step")
    assert site is not None
    assert site.parameters == ("params", "x")
    edited = render(text, [site.with_keyword("donate_argnums", "(0,)")])
    again = site_of(SourceFile("x.py", edited), "step")
    assert again is not None
    assert again.keyword("donate_argnums") is not None


def test_a_keyword_that_is_there_gets_another_value() -> None:
    text = f"@jax.jit(donate_argnums=(1,))\n{DEFINITION}"
    site = site_of(SourceFile("x.py", text), "step")
    assert site is not None
    assert "donate_argnums=(0, 1))" in render(text, [site.with_keyword("donate_argnums", "(0, 1)")])


def test_what_is_jitted_twice_is_found_by_the_name_it_is_assigned_to() -> None:
    text = f"{DEFINITION}\none = jax.jit(step)\ntwo = jax.jit(step, donate_argnums=0)\n"
    file = SourceFile("x.py", text)
    assert site_of(file, "step") is None  # it is not clear which
    two = site_of(file, "two")
    assert two is not None
    assert two.keyword("donate_argnums") is not None


def test_functions_of_one_name_are_told_apart_by_a_line() -> None:
    text = f"@jax.jit\n{DEFINITION}\n\n@jax.jit\n{DEFINITION}"
    site = site_of(SourceFile("x.py", text), "step", line=7)
    assert site is not None
    assert site.node.lineno == 6


def test_names_that_a_line_calls_come_outermost_first() -> None:
    file = SourceFile("x.py", "state = self.step(state, next(batches))\n")
    assert called_on(file, 1) == ["step", "next"]
