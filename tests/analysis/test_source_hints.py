"""What the user's source says of captured arrays, meshes and how arrays are spread."""

from __future__ import annotations

from textwrap import dedent

import pytest

from vtpu.analysis.source.captured import captured_names
from vtpu.analysis.source.files import SourceFile
from vtpu.analysis.source.meshes import mesh_axes
from vtpu.analysis.source.spreading import creation_on, spreading_of, spreading_on, upload_on


def file(text: str) -> SourceFile:
    return SourceFile("train.py", dedent(text))


def marked(found: SourceFile) -> int:
    """The line with a mark."""
    return next(n for n, line in enumerate(found.lines, 1) if "# here" in line)


CAPTURED = {
    "of the module": (
        """
        table = load()
        def step(x):
            return x @ table  # here
        """,
        ("table",),
    ),
    "of a function around": (
        """
        def main():
            table = load()
            @jax.jit
            def step(x):
                return x @ table  # here
        """,
        ("table",),
    ),
    "of an object": (
        """
        class Model:
            def step(self, x):
                return x @ self.table  # here
        """,
        ("self.table",),
    ),
    "an argument": (
        """
        def step(x, table):
            return x @ table  # here
        """,
        (),
    ),
    "made inside": (
        """
        table = None
        def step(x):
            table = x + 1
            return x @ table  # here
        """,
        (),
    ),
    "a function or a module": (
        """
        import jax.numpy as jnp
        def layer(x):
            return x
        def step(x):
            return jnp.sum(layer(x))  # here
        """,
        (),
    ),
    "in a lambda": (
        """
        table = load()
        step = jax.jit(lambda x: x @ table)  # here
        """,
        ("table",),
    ),
}


@pytest.mark.parametrize("case", CAPTURED)
def test_names_that_a_function_captures_are_found(case: str) -> None:
    text, names = CAPTURED[case]
    source = file(text)
    assert captured_names(source, marked(source)) == names


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ('mesh = Mesh(np.array(jax.devices()), ("data",))', ("data",)),
        ('mesh = jax.make_mesh((4, 2), axis_names=("data", "model"))', ("data", "model")),
        ('mesh = jax.make_mesh((8,), "x")', ("x",)),
        ("mesh = Mesh(devices, names)", ()),
        ('a = Mesh(devices, ("x",)); b = Mesh(devices, ("y",))', ()),
        ("print(1)", ()),
    ],
)
def test_the_axes_of_the_one_mesh_are_read(text: str, axes: tuple[str, ...]) -> None:
    assert mesh_axes(file(text)) == axes


def test_what_is_spread_and_how_it_was_created_is_read() -> None:
    source = file(
        """\
        table = jax.device_put(jnp.zeros((8, 8)), rows)
        params = init(key)
        params = jax.device_put(params, device=rows)
        images = jnp.asarray(loaded)
        made = jnp.zeros((8, 8), device=rows)
        """
    )
    spreading = spreading_on(source, 1)
    assert spreading is not None
    assert (spreading.value, spreading.sharding) == ("jnp.zeros((8, 8))", "rows")
    assert creation_on(source, 1) == "jnp.zeros((8, 8))"
    assert spreading_of(source, "params") is not None
    assert spreading_of(source, "images") is None
    assert upload_on(source, 4) == "loaded"
    assert creation_on(source, 5) is None  # it has its devices
