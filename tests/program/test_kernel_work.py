from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout
from vtpu.program.memory import MemorySpace
from vtpu.program.shapes import ArrayShape
from vtpu.program.work import Work
from vtpu.program.work.kernels import Operand, kernel_work
from vtpu.reading.kernel_bodies import KernelError, read_kernel

HBM, VMEM = MemorySpace.HBM, MemorySpace.VMEM
_CONFIG = re.compile(r'backend_config = "((?:[^"\\]|\\.)*)"')


def shape(*dims: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def body_of(function: Callable[..., Any], *args: jax.ShapeDtypeStruct) -> str:
    """The body of the one kernel that a function calls, as it is compiled for a TPU."""
    lowered = jax.jit(function).trace(*args).lower(lowering_platforms=("tpu",))
    configs = _CONFIG.findall(lowered.as_text())
    texts = [json.loads(f'"{c}"'.replace("\\22", '\\"')) for c in configs]
    (config,) = [json.loads(t) for t in texts if "custom_call_config" in t]
    return config["custom_call_config"]["body"]


def placed(array: Any) -> Operand:
    """An operand in HBM; with its elements where it has any."""
    names = {"float32": "F32", "bfloat16": "BF16", "int32": "S32", "int8": "S8"}
    layout = Layout(tuple(reversed(range(len(array.shape)))))
    found = ArrayShape(ElementType[names[str(array.dtype)]], tuple(array.shape), layout)
    return Operand(found, array if isinstance(array, np.ndarray) else None)


def counted(function: Callable[..., Any], *args: Any) -> Work:
    """The work of a function that is one kernel; arrays of NumPy are known to it."""
    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
    kernel = read_kernel(body_of(function, *shapes))
    results = jax.tree.leaves(jax.eval_shape(function, *shapes))
    return kernel_work(kernel, [placed(a) for a in args], [placed(r) for r in results])


def product(m: int, n: int, k: int, bm: int, bn: int, bk: int) -> Callable[..., Any]:
    """A product in blocks, the inner dimension fastest."""

    def kernel(a: Any, b: Any, out: Any, total: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _() -> None:
            out[...] = total[...]

    return pl.pallas_call(
        kernel,
        grid=(m // bm, n // bn, k // bk),
        in_specs=[
            pl.BlockSpec((bm, bk), lambda i, _j, p: (i, p)),
            pl.BlockSpec((bk, bn), lambda _i, j, p: (p, j)),
        ],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, _p: (i, j)),
        out_shape=shape(m, n),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
    )


def fetched(grid: tuple[int, ...], index: Callable[..., tuple[int, ...]]) -> int:
    """How often a window is fetched, place by place."""
    before, count = None, 0
    for place in np.ndindex(*grid):
        if index(*place) != before:
            before, count = index(*place), count + 1
    return count


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
@settings(max_examples=12, deadline=None)
def test_a_product_in_blocks_is_the_product_and_reads_blocks_again(i: int, j: int, p: int) -> None:
    bm, bn, bk = 128, 256, 128
    m, n, k = i * bm, j * bn, p * bk
    bf16 = jnp.bfloat16
    found = counted(product(m, n, k, bm, bn, bk), shape(m, k, dtype=bf16), shape(k, n, dtype=bf16))
    assert found.flops == 2 * m * n * k
    a = fetched((i, j, p), lambda i, _j, p: (i, p)) * bm * bk * 2
    b = fetched((i, j, p), lambda _i, j, p: (p, j)) * bk * bn * 2
    assert found.read[HBM] == a + b
    assert found.written[HBM] == m * n * 4
    assert found.vector_ops == m * n * p  # the sums
    assert not found.is_bound


def test_operations_on_each_element_are_counted_apart_from_transcendental_ones() -> None:
    def kernel(a: Any, out: Any) -> None:
        out[...] = jnp.exp(a[...]) * 2 + jnp.sum(a[...], axis=1, keepdims=True)

    found = counted(pl.pallas_call(kernel, out_shape=shape(64, 128)), shape(64, 128))
    assert found.transcendentals == 64 * 128
    assert found.vector_ops == 3 * 64 * 128
    assert (found.read[HBM], found.written[HBM]) == (64 * 128 * 4, 64 * 128 * 4)


def test_what_a_place_in_the_grid_leaves_out_is_left_out() -> None:
    def kernel(a: Any, out: Any) -> None:
        i, j = pl.program_id(0), pl.program_id(1)

        @pl.when(j <= i)
        def _() -> None:
            out[...] = jnp.exp(a[...])

    block = pl.BlockSpec((128, 128), lambda i, j: (i, j))
    call = pl.pallas_call(
        kernel, grid=(4, 4), in_specs=[block], out_specs=block, out_shape=shape(512, 512)
    )
    assert counted(call, shape(512, 512)).transcendentals == 10 * 128 * 128


def masked() -> Callable[..., Any]:
    def kernel(mask: Any, a: Any, out: Any) -> None:
        @pl.when(mask[pl.program_id(0)] > 0)
        def _() -> None:
            out[...] = jnp.exp(a[...])

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(8,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, mask: (jnp.where(mask[i] > 0, i, 0), 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, _mask: (i, 0)),
    )
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=shape(64, 128))


def test_blocks_that_a_known_mask_leaves_out_are_neither_computed_nor_read() -> None:
    mask = np.array([1, 0, 0, 0, 1, 1, 0, 0], np.int32)
    found = counted(masked(), mask, shape(64, 128))
    assert found.transcendentals == 3 * 8 * 128
    assert found.read[HBM] == 4 * 8 * 128 * 4  # block 0, 4, 5, and 0 again
    assert not found.is_bound


def test_a_mask_that_only_the_chip_knows_makes_the_work_a_bound() -> None:
    found = counted(masked(), shape(8, dtype=jnp.int32), shape(64, 128))
    assert found.transcendentals == 8 * 8 * 128
    assert found.read[HBM] == 8 * 8 * 128 * 4
    assert found.is_bound


@pytest.mark.parametrize("unroll", [False, True])
def test_a_loop_in_a_kernel_runs_as_often_as_it_says(unroll: bool) -> None:
    def kernel(a: Any, out: Any) -> None:
        def run(i: Any, total: Any) -> Any:
            return total + jnp.exp(a[pl.ds(i * 8, 8), :])

        out[...] = jax.lax.fori_loop(0, 8, run, jnp.zeros((8, 128), jnp.float32), unroll=unroll)

    found = counted(pl.pallas_call(kernel, out_shape=shape(8, 128)), shape(64, 128))
    assert found.transcendentals == 8 * 8 * 128


def test_a_loop_up_to_the_place_in_the_grid_is_a_triangle() -> None:
    def kernel(a: Any, out: Any) -> None:
        def run(_i: Any, total: Any) -> Any:
            return total + jnp.exp(a[...])

        end = pl.program_id(0) + 1
        out[...] = jax.lax.fori_loop(0, end, run, jnp.zeros((8, 128), jnp.float32))

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    call = pl.pallas_call(
        kernel, grid=(8,), in_specs=[block], out_specs=block, out_shape=shape(64, 128)
    )
    assert counted(call, shape(64, 128)).transcendentals == 36 * 8 * 128


def test_a_loop_whose_end_is_data_makes_the_work_unknown() -> None:
    def kernel(ends: Any, a: Any, out: Any) -> None:
        def run(_i: Any, total: Any) -> Any:
            return total + jnp.exp(a[...])

        out[...] = jax.lax.fori_loop(0, ends[0], run, jnp.zeros((8, 128), jnp.float32))

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(1,),
        in_specs=[pl.BlockSpec((8, 128), lambda _i, _ends: (0, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda _i, _ends: (0, 0)),
    )
    call = pl.pallas_call(kernel, grid_spec=spec, out_shape=shape(8, 128))
    assert counted(call, shape(1, dtype=jnp.int32), shape(8, 128)).is_unknown
    known = counted(call, np.array([5], np.int32), shape(8, 128))
    assert known.transcendentals == 5 * 8 * 128


def test_copies_that_a_kernel_starts_itself_are_counted() -> None:
    def kernel(a: Any, out: Any, room: Any, done: Any) -> None:
        copy = pltpu.make_async_copy(a.at[pl.ds(0, 16)], room, done)
        copy.start()
        copy.wait()
        out[...] = room[...]

    call = pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_shape=shape(16, 128),
        scratch_shapes=[pltpu.VMEM((16, 128), jnp.float32), pltpu.SemaphoreType.DMA],
    )
    assert counted(call, shape(1024, 128)).read[HBM] == 16 * 128 * 4


def test_causal_attention_does_the_blocks_on_and_below_the_diagonal() -> None:
    from jax.experimental.pallas.ops.tpu.splash_attention import (
        splash_attention_kernel as splash,
    )
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    heads, length, width, block = 2, 2048, 128, 512
    mask = masks.MultiHeadMask([masks.CausalMask((length, length)) for _ in range(heads)])
    sizes = splash.BlockSizes(block_q=block, block_kv=block, block_kv_compute=block)
    attention = splash.make_splash_mha(mask=mask, head_shards=1, q_seq_shards=1, block_sizes=sizes)
    info = attention.fwd_mask_info
    bf16 = jnp.bfloat16
    values = [shape(heads, length, width, dtype=bf16)] * 3
    kernel = read_kernel(body_of(attention, *values))
    prefetched = [np.asarray(a) for a in (info.data_next, info.block_mask) if a is not None]
    assert kernel.scalar_prefetch == len(prefetched)
    sequence = placed(shape(length, 128, dtype=jnp.int32))
    operands = [*map(placed, prefetched), *map(placed, values), sequence]
    found = kernel_work(kernel, operands, [placed(values[0])])
    blocks = length // block
    below = blocks * (blocks + 1) // 2
    assert found.flops == heads * below * 2 * (2 * block * block * width)
    assert not found.is_bound


@pytest.mark.parametrize("body", ["", "%%%", "AAAA", "TUzvUgE=", "TUzvUg1NTElS"])
def test_what_is_no_kernel_is_said(body: str) -> None:
    with pytest.raises(KernelError):
        read_kernel(body)


@functools.cache
def small_body() -> bytes:
    def kernel(a: Any, out: Any) -> None:
        out[...] = a[...] + 1

    return base64.b64decode(body_of(pl.pallas_call(kernel, out_shape=shape(8, 128)), shape(8, 128)))


@given(st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_a_kernel_that_is_cut_is_said(length: int) -> None:
    data = small_body()
    if length >= len(data):
        return
    with pytest.raises(KernelError):
        read_kernel(base64.b64encode(data[:length]).decode())
