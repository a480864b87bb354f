"""Programs without the places of their lines: a moved comment changes nothing but the table."""

import os

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxlib.mlir.dialects import stablehlo

from vtpu.compiler.canonical import CANONICAL_FILE, canonicalize
from vtpu.program.locations import parse_location

PLAIN = """
def f(x):
    y = jnp.sin(x) @ x.T
    return jax.nn.softmax(y) * 2
"""
KERNEL = """
def double(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2

def f(x):
    return pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""


def lowered(source, file="train.py"):
    """The portable program of `f` in `source`, as JAX sends it to a TPU."""
    names = {"jax": jax, "jnp": jnp, "pl": pl}
    exec(compile(source, file, "exec"), names)
    traced = jax.jit(names["f"]).trace(jax.ShapeDtypeStruct((8, 128), jnp.float32))
    module = traced.lower(lowering_platforms=("tpu",)).compiler_ir()
    return stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())


def user_lines(program):
    frames = [parse_location(text).frames for text in program.locations]
    return {f.line for stack in frames for f in stack if f.file == "train.py"}


@pytest.mark.parametrize("source", [PLAIN, KERNEL], ids=["plain", "kernel"])
def test_a_comment_above_the_function_changes_only_the_table(source):
    before = canonicalize(lowered(source))
    after = canonicalize(lowered("# a comment\n\n" + source))
    assert before.code == after.code
    assert {line + 2 for line in user_lines(before)} == user_lines(after)


def test_another_program_is_another_program():
    assert canonicalize(lowered(PLAIN)).code != canonicalize(lowered(PLAIN.replace("2", "3"))).code


def test_a_kernel_that_computes_something_else_is_another_program():
    other = KERNEL.replace("* 2", "* 3")
    assert canonicalize(lowered(KERNEL)).code != canonicalize(lowered(other)).code


def test_names_of_operations_stay_and_their_places_become_numbers():
    canonical = canonicalize(lowered(PLAIN))
    again = canonicalize(canonical.code)
    assert again.code == canonical.code
    for number, (now, original) in enumerate(
        zip(again.locations, canonical.locations, strict=True)
    ):
        place = parse_location(now)
        assert place.names == parse_location(original).names
        assert [(f.file, f.line) for f in place.frames] == [(CANONICAL_FILE, number)]


def test_the_bytes_keep_the_version_that_jax_chose():
    code = lowered(PLAIN)
    assert canonicalize(code).code.split(b"\0")[0] == code.split(b"\0")[0]


@pytest.mark.parametrize("code", [b"", b"ML\xefR", b"not bytecode at all"])
def test_what_is_no_program_is_refused(code):
    with pytest.raises(ValueError, match="StableHLO"):
        canonicalize(code)
