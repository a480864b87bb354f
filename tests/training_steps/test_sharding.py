"""Laws of placing values on meshes, and what does not go together."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from benchmarks.models.layers import Context
from benchmarks.models.model import Model
from benchmarks.models.run import AXES, Run
from benchmarks.models.sharding import RULES, Layout, _in_rings, _sizes
from benchmarks.models.together import check_together
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AbstractMesh

NAMES = sorted({name for name, _ in RULES})
MODEL = Model(embed=64, layers=2, query_heads=4, kv_heads=2, head_dim=16, mlp=96, vocab=128)
RUN = Run(slice="v5e-4", per_device_batch=2, sequence=128)
meshes = st.tuples(*[st.sampled_from([1, 2, 4])] * len(AXES))
dimensions = st.lists(st.sampled_from([*NAMES, None]), min_size=1, max_size=4, unique=True)


def layout_of(**sizes: int) -> Layout:
    return Layout(AbstractMesh(tuple(sizes.get(axis, 1) for axis in AXES), AXES))


@given(meshes, dimensions)
def test_no_mesh_axis_places_two_dimensions(sizes, names):
    layout = Layout(AbstractMesh(sizes, AXES))
    spec = layout.spec(*names)
    used = [axis for axes in spec for axis in ((axes,) if isinstance(axes, str) else axes or ())]
    assert len(used) == len(set(used))
    assert all(layout.size(axis) > 1 for axis in used)
    assert len(spec) == len(names)


def test_weights_are_spread_as_maxtext_spreads_them():
    layout = layout_of(fsdp=4, tensor=2, expert=2)
    assert layout.spec("embed", "mlp") == jax.P(("fsdp", "expert"), "tensor")
    assert layout.spec("embed", "heads", None) == jax.P(("fsdp", "expert"), "tensor", None)
    assert layout.spec("experts", "embed_of_expert", "mlp") == jax.P("expert", "fsdp", "tensor")
    assert layout.spec("batch", "act_length", "act_embed") == jax.P(
        ("fsdp", "expert"), None, "tensor"
    )


@pytest.mark.parametrize("length", [4, 8])
def test_neighbours_in_a_ring_are_neighbours_in_the_torus(length):
    rings = _in_rings(np.arange(256).reshape(16, 16), length)
    assert sorted(rings.ravel()) == list(range(256))
    steps = np.abs(rings - np.roll(rings, 1, axis=1))
    assert set(steps.ravel().tolist()) == {1, 16}


def test_the_rest_of_a_mesh_is_fully_sharded():
    sizes = dict(zip(AXES, _sizes("mesh", {"tensor": 4}, 64, rest="fsdp"), strict=True))
    assert (sizes["fsdp"], sizes["tensor"], sizes["data"]) == (16, 4, 1)
    with pytest.raises(ValueError, match="does not make 64 devices"):
        _sizes("mesh", {"tensor": 3}, 64, rest="fsdp")


@pytest.mark.parametrize(
    ("model", "run", "mesh", "message"),
    [
        ({}, {"attention": "old_flash"}, {"context": 2}, "'old_flash' takes whole sequences"),
        ({"windows": (8,)}, {"attention": "old_flash"}, {}, "'old_flash' has no windows"),
        ({}, {}, {"tensor": 4}, "2 heads cannot be spread over 4 devices"),
        ({"positions": 64}, {}, {}, "sequence = 128 is longer than the model's positions = 64"),
        ({}, {"capacity_factor": 1.0}, {}, "capacity_factor is for moe = 'dense'"),
        (
            {"experts": 3, "experts_per_token": 1},
            {},
            {"expert": 2},
            "3 experts cannot be spread over 2 devices",
        ),
        (
            {"experts": 4, "experts_per_token": 1},
            {},
            {"fsdp_transpose": 2},
            "no mesh of fsdp_transpose",
        ),
        ({}, {"per_device_batch": 0.3}, {}, "0.3 sequences are no whole batch"),
        ({}, {"per_device_batch": 0.5}, {"fsdp": 4}, "2.0 sequences cannot be spread over 4"),
        ({"embed": 63}, {}, {"fsdp": 2}, r"embedding \[128, 63\]: 63 cannot be spread over 2"),
    ],
)
def test_what_does_not_go_together_is_said(model, run, mesh, message):
    context = Context(
        dataclasses.replace(MODEL, **model), dataclasses.replace(RUN, **run), layout_of(**mesh)
    )
    with pytest.raises(ValueError, match=message):
        check_together(context)
