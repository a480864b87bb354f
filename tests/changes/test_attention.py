"""Attention is found by what it computes, and gives the same in blocks of queries."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from changes.computed import same_result
from changes.trials import tried
from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import render
from vtpu.changes.proposals.chunked_attention import PROPOSAL
from vtpu.changes.rewriting.query_blocks import in_query_blocks
from vtpu.changes.source.attention import NotAttention, find_attention

HEAD = """
import math
import jax
import jax.numpy as jnp
from jax import nn

B, H, T, D = 2, 3, 12, 8
key = jax.random.key(0)
"""
HEADS_FIRST = "q, k, v = (jax.random.normal(x, (B, H, T, D)) for x in jax.random.split(key, 3))\n"
HEADS_LAST = "q, k, v = (jax.random.normal(x, (B, T, H, D)) for x in jax.random.split(key, 3))\n"
MASK = "mask = jnp.tril(jnp.ones((T, T), bool))\n"
SPLIT_SEQUENCE = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("sequence",))

def attend(tokens, weights):
    q, k, v = jnp.split(tokens @ weights, 3, axis=-1)
    q, k, v = (a.reshape(-1, 4, 64).swapaxes(0, 1) for a in (q, k, v))
    k, v = (jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P())) for a in (k, v))
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * 64**-0.5
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)

step = jax.jit(attend)
args = (
    jax.ShapeDtypeStruct((16384, 256), jnp.float32, sharding=NamedSharding(mesh, P("sequence", None))),
    jax.ShapeDtypeStruct((256, 768), jnp.float32, sharding=NamedSharding(mesh, P())),
)
"""
TAIL = "result = jax.value_and_grad(lambda *a: (attention(*a) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)\n"

EINSUM = """
def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k).astype(jnp.float32) * D**-0.5
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores).astype(q.dtype), v)
"""
GROUPED = """
def attention(q, k, v):
    s = jnp.einsum("bqhd,bkhd->bhqk", q * math.sqrt(1 / D), k)
    s = jnp.where(mask[None, None], s, -jnp.inf)
    weights = nn.softmax(s, axis=-1)
    out = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(B, T, H * D)
    return out
"""
MATMUL = """
def attention(q, k, v):
    n = q.shape[2]
    att = (q @ k.swapaxes(-1, -2)) / jnp.sqrt(D)
    causal = jnp.tril(jnp.ones((n, n), dtype=bool))
    att = jnp.where(causal, att, jnp.finfo(att_type).min)
    att = jax.nn.softmax(att, axis=-1)
    y = (att @ v).transpose(0, 2, 1, 3)
    return y
att_type = jnp.float32
"""
BIASED = """
def attention(q, k, v):
    bias = jnp.where(mask, 0.0, -1e9)[None] + jnp.arange(T)
    return jnp.matmul(jax.nn.softmax(jnp.matmul(q, k.transpose(0, 1, 3, 2)) + bias, axis=-1), v)
"""
VALUES_FIRST = """
def attention(q, k, v):
    w = jax.nn.softmax(jnp.einsum("bhkd,bhqd->bhqk", k, q))
    return jnp.einsum("bhkd,bhqk->bhqd", v, w)
"""
GOOD = {
    "einsum": (HEADS_FIRST, EINSUM),
    "heads last, a mask": (HEADS_LAST + MASK, GROUPED),
    "matmul, a mask made in it": (HEADS_FIRST, MATMUL),
    "one expression, a bias": (HEADS_FIRST + MASK, BIASED),
    "keys and values first": (HEADS_FIRST, VALUES_FIRST),
}


def in_blocks(text: str, block: int = 4) -> str:
    """A text whose function `attention` goes over blocks of queries."""
    file = SourceFile("prog.py", text)
    functions = [n for n in file.tree.body if isinstance(n, ast.FunctionDef)]
    return render(text, in_query_blocks(find_attention(file, functions[0].body), block))


@pytest.mark.parametrize("name", GOOD)
def test_blocks_of_queries_give_the_same_values_and_gradients(
    name: str, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    arrays, function = GOOD[name]
    before = HEAD + function + arrays + TAIL
    after = in_blocks(before)
    assert "in_query_blocks(attend" in after
    same_result(tmp_path, environment, before, after)


def test_a_size_that_no_block_divides_goes_in_smaller_ones(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    before = HEAD + EINSUM + HEADS_FIRST + TAIL
    same_result(tmp_path, environment, before, in_blocks(before, block=5))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("softmax(scores)", "softmax(scores, axis=-2)", "no product of a softmax"),
        ("softmax(scores)", "softmax(scores, where=scores > 0)", "no product of a softmax"),
        ("softmax(scores)", "softmax(jnp.cumsum(scores, axis=2))", "no product of a softmax"),
        ("jax.nn.softmax(scores)", "scores", "no product of a softmax"),
        ("bhqk,bhkd->bhqd", "bhqk,bhqd->bhkd", "no product of a softmax"),
        ('bhqd,bhkd->bhqk"', 'bhqd,bhqd->bhqq"', "no product of a softmax"),
        ("    return", "    print(scores)\n    return", "used elsewhere too: scores"),
        ("type), v)", "type), v) + scores.mean()", "used elsewhere too: scores"),
        ("    return", "    k = k + 1\n    return", "k changes in between"),
        ("return jnp", "return attention(q, k, v) and jnp", None),
    ],
)
def test_what_is_no_attention_of_known_kinds_is_left_alone(
    old: str, new: str, reason: str | None
) -> None:
    text = HEAD + EINSUM.replace(old, new)
    if reason is None:
        assert "in_query_blocks(attend" in in_blocks(text)
        return
    with pytest.raises(NotAttention, match=reason):
        in_blocks(text)


def test_two_attentions_in_one_function_are_told_apart_by_no_one() -> None:
    text = HEAD + EINSUM.replace("    return", "    q = jax.nn.softmax(q @ k) @ v\n    return")
    with pytest.raises(NotAttention, match="more than one"):
        in_blocks(text)


def test_each_device_has_a_part_of_every_block_of_a_split_sequence(tmp_path: Path) -> None:
    with tried(SPLIT_SEQUENCE, tmp_path, "v5e:2x4", function="step") as trials:
        change = trials.proposed(PROPOSAL)[0]
        after = trials.measured(change)
        before = trials.before
    assert "in blocks of 4096 queries" in change.title
    assert (after.peak_bytes or 0) < 0.6 * (before.peak_bytes or 0)
    assert (after.step_s or 0) < 2 * (before.step_s or 0)
