"""An argument that is read after the call keeps its memory."""

from __future__ import annotations

import pytest

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.jit_sites import site_of
from vtpu.changes.source.uses_after import uses_after

JITTED = """
import jax
def step(params, x):
    return params - x
step = jax.jit(step)
"""
PARAMETERS = ("params", "x")


def used(text: str, function: str = "step", parameters: tuple[str, ...] = PARAMETERS) -> list[str]:
    """The parameters whose arguments a text uses after the call."""
    site = site_of(SourceFile("prog.py", text), function)
    assert site is not None
    return [u.parameter for u in uses_after(site, parameters)]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("params = step(params, x)", []),
        ("new = step(params, x)", []),
        ("new = step(params, x)\nparams = new", []),
        ("new = step(params, x)\nprint(params - new)", ["params"]),
        ("for x in batches:\n    params = step(params, x)", []),
        ("for _ in range(3):\n    params = step(params, x)", ["x"]),
        ("for _ in range(3):\n    x = load()\n    params = step(params, x)", []),
        ("for _ in range(3):\n    params = step(params, x=load())", []),
        ("for _ in range(3):\n    new = step(params, load())\n    params = new", []),
        ("for _ in range(3):\n    new = step(params, load())", ["params"]),
        ("while True:\n    state.params = step(state.params, load())", []),
        ("state.params = step(state.params, x)\nprint(x)", ["x"]),
        ("params, old = step(params, x), params", []),
        ("for x in batches:\n    params = step(params, x)\n    saved.append(params)", ["params"]),
        (
            "for e in epochs:\n    for x in e:\n        params = step(params, x)\n    best[e] = params",
            ["params"],
        ),
        ("for x in batches:\n    params = step(params, x)\n    show(params, {'p': x})", ["x"]),
        ("new = step(*both)\nprint(both)", []),
    ],
)
def test_what_a_script_reads_later_is_told(calls: str, expected: list[str]) -> None:
    assert used(f"{JITTED}{calls}\n") == expected


def test_calls_of_a_jitted_method_are_found() -> None:
    text = """
import functools, jax
class Trainer:
    @functools.partial(jax.jit, static_argnums=0)
    def step(self, params, x):
        return params - x
    def fit(self, params, batches):
        for x in batches:
            new = self.step(params, x)
            print(x.shape)
            params = new
"""
    assert used(text) == ["x"]


def test_a_function_that_is_assigned_to_an_attribute_is_called_by_that_name() -> None:
    text = """
import jax
class Trainer:
    def __init__(self):
        self.update = jax.jit(self._step)
    def _step(self, params, x):
        return params - x
    def fit(self, params, x):
        new = self.update(params, x)
        return new, params
"""
    assert used(text, "_step") == ["params"]
