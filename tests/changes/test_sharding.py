"""State and batch split over devices: what the helper does, where it is put, what a device then holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh

from changes.trying import edited, proposed, situation_of
from running import Bench, Run
from vtpu.analysis.program.argument_roles import Role
from vtpu.changes.change import Change
from vtpu.changes.proposals import shard_batch, shard_optimizer, shard_parameters
from vtpu.changes.rewriting.splitting import _SOURCE, HELPER, Cut, split, split_dimension
from vtpu.changes.source.state import Batch, State, Taken, find_batch
from vtpu.program.element_types import ElementType


def taken(path: str, *shape: int, role: Role = Role.PARAMETER, **more: Any) -> Taken:
    given: dict[str, Any] = {
        "parts": (1,) * len(shape),
        "axes": ((),) * len(shape),
        "is_donated": False,
        "is_on_host": False,
        "bytes": 4 * int(np.prod(shape)),
    }
    given.update(more)
    return Taken(path=path, shape=shape, element_type=ElementType.F32, role=role, **given)


# ---- which dimension ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axes", "dimension"),
    [
        ((24, 4096, 8192), ((), (), ()), 2),
        ((24, 4096, 8190), ((), (), ()), 1),
        ((4096, 8192), ((), ("model",)), 0),
        ((4096, 8192), (("data",), ()), None),
        ((128,), ((),), None),
        ((333, 777), ((), ()), None),
    ],
)
def test_the_largest_dimension_that_divides_is_split(shape, axes, dimension):
    array = taken("w", *shape, axes=axes)
    cut = Cut(axis="data", size=8)
    assert split_dimension(array, cut) == dimension
    change = split(array, cut)
    assert (change is None) == (dimension is None)
    if change and change.spec:
        assert change.spec[dimension] == "data"


def test_the_helper_splits_as_what_is_proposed_for_functions():
    module = ModuleType("helper")
    module.__dict__["jax"] = jax
    exec(_SOURCE, module.__dict__)
    tree = {
        "a": jax.ShapeDtypeStruct((24, 512, 8190), np.float32),
        "b": jax.ShapeDtypeStruct((16,), np.float32),
        "n": jax.ShapeDtypeStruct((), np.int32),
    }
    mesh = AbstractMesh((8,), ("data",))
    found = module.__dict__[HELPER](tree, mesh, "data")
    assert {k: tuple(s.spec) for k, s in found.items()} == {
        "a": (None, "data", None),
        "b": (None,),
        "n": (),
    }
    experts = {"up": jax.ShapeDtypeStruct((2, 8, 512, 2048), np.float32)}
    exact = module.__dict__[HELPER](experts, mesh, "data", exact=True)
    assert tuple(exact["up"].spec) == (None, "data", None, None)
    assert split_dimension(taken("up", 2, 8, 512, 2048), Cut(axis="data", size=8, exact=True)) == 1
    below = module.__dict__[HELPER]({"x": tree, "y": tree}, mesh, "data", below=("['y']",))
    assert (tuple(below["x"]["a"].spec), tuple(below["y"]["a"].spec)) == ((None,) * 3, (None, "data", None))  # fmt: skip


# ---- state and batch ---------------------------------------------------------------------------


def state_of(*arrays: Taken) -> State:
    def of(role: Role) -> tuple[Taken, ...]:
        return tuple(a for a in arrays if a.role is role)

    return State(
        parameters=of(Role.PARAMETER),
        optimizer=of(Role.OPTIMIZER),
        batch=of(Role.BATCH),
        arrays=arrays,
        results=(),
        mesh=(),
    )


def test_a_part_of_an_argument_is_named_by_the_shortest_paths():
    state = state_of(
        taken("state.params['w']", 8, 8),
        taken("state.opt_state[0].mu['w']", 8, 8, role=Role.OPTIMIZER),
        taken("state.opt_state[0].nu['w']", 8, 8, role=Role.OPTIMIZER),
        taken("other[0]", 8, 8, role=Role.OPTIMIZER),
    )
    first, second = state.parts(state.optimizer)
    assert (first.tree, first.below, first.name) == ("state", (".opt_state",), "state.opt_state")
    assert (second.below, second.is_whole) == (("",), True)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ([taken("w", 8, 8)], "no argument is known to be the batch (w (f32[8,8]))"),
        (
            [taken("x", 8, 8, role=Role.BATCH), taken("y", 4, role=Role.BATCH)],
            "not every first dimension may be the batch: x (f32[8,8]), y (f32[4])",
        ),
        (
            [taken("x", 8, 8, role=Role.BATCH, parts=(1, 2))],
            "x (f32[8,8]) is spread over the mesh along another dimension",
        ),
    ],
)
def test_a_batch_that_cannot_be_told_is_said(arrays, reason):
    found = find_batch(state_of(*arrays))
    assert isinstance(found, str)
    assert found.startswith(reason)


def test_the_batch_is_the_first_dimension_of_all_its_arrays():
    found = find_batch(
        state_of(
            taken("x", 64, 8, role=Role.BATCH, parts=(4, 1)),
            taken("y", 64, role=Role.BATCH, parts=(1,)),
        )
    )
    assert isinstance(found, Batch)
    assert (found.size, found.cut, found.trees) == (64, 4, ("x", "y"))


# ---- scripts -----------------------------------------------------------------------------------

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

WIDTH, HIDDEN, BATCH = 512, 1024, 4096
{mesh}

def init(key):
    return {{"up": jnp.ones((WIDTH, HIDDEN)), "down": jnp.ones((HIDDEN, WIDTH))}}

def loss_of(params, x):
    return jnp.mean(jnp.square(jnp.tanh(x @ params["up"]) @ params["down"]))

{jit}
def step(params, mu, x):
    grads = jax.grad(loss_of)(params, x)
    mu = jax.tree.map(lambda m, g: 0.9 * m + g, mu, grads)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, mu), mu

def main():
    params = {params}
    mu = jax.tree.map(jnp.zeros_like, params)
    for _ in range(4):
        x = {x}
        params, mu = step(params, mu, x)

main()
"""
MESH = 'mesh = Mesh(np.array(jax.devices()), ("data",))'
WHOLE = "jax.device_put(init(jax.random.key(0)), NamedSharding(mesh, P()))"
ROWS = 'jax.device_put(np.ones((BATCH, WIDTH), np.float32), NamedSharding(mesh, P("data")))'


def program(**parts: str) -> str:
    return PROGRAM.format(**{"mesh": MESH, "params": WHOLE, "x": ROWS, "jit": "@jax.jit", **parts})


def changes_of(
    bench: Bench, text: str, proposal: Any, on: str = "v5e:2x2"
) -> tuple[Run, Sequence[Change]]:
    run = bench.run(text, on=on)
    assert run.exit_code == 0, run.stderr
    found, reasons = proposed(proposal, situation_of(bench, run))
    assert found, reasons
    return run, found


def run_with(bench: Bench, text: str, change: Change, on: str = "v5e:2x2") -> Run:
    """The program with a change, run from another folder so that the first recording stays."""
    elsewhere = bench.folder / "changed"
    elsewhere.mkdir(exist_ok=True)
    run = replace(bench, folder=elsewhere).run(edited(text, change.edits), on=on)
    assert run.exit_code == 0, run.stderr[-3000:]
    return run


def argument_bytes(run: Run) -> int:
    """Of the last program of the step: the first one may take arguments as they were made."""
    return [p for p in run.recording.programs if p.name == "jit_step"][-1].argument_bytes


@pytest.mark.parametrize(
    ("params", "written"),
    [
        (WHOLE, 'params = jax.device_put(params, split_shardings(params, mesh, "data"))'),
        (
            "jax.jit(init)(jax.random.key(0))",
            'jax.jit(init, out_shardings=split_shardings(jax.eval_shape(init, jax.random.key(0)), mesh, "data"))(',
        ),
    ],
)
def test_parameters_and_moments_are_split_where_they_are_made(bench: Bench, params, written):
    text = program(params=params)
    before, changes = changes_of(bench, text, shard_parameters.PROPOSAL)
    assert [c.title for c in changes] == [
        "split params, mu 4 ways over 'data'",
        "split params 4 ways over 'data'",
    ]
    assert written in edited(text, changes[0].edits)
    after = run_with(bench, text, changes[0])
    batch = 4096 * 512
    assert argument_bytes(after) - batch < 0.3 * (argument_bytes(before) - batch)


def test_a_split_optimizer_leaves_the_parameters_whole(bench: Bench):
    text = program()
    _, changes = changes_of(bench, text, shard_optimizer.PROPOSAL)
    after = run_with(bench, text, changes[0])
    steps = [p for p in after.recording.programs if p.name == "jit_step"]
    assert len(steps) == 1  # results are spread as the arguments: nothing is compiled again
    situation = situation_of(replace(bench, folder=bench.folder / "changed"), after)
    module = situation.program.module
    assert module is not None
    cut = {p.op_name: s.pieces for p, s in zip(module.parameters(), module.parameter_shardings, strict=True) if s}  # fmt: skip
    assert (cut["params['up']"], cut["mu['up']"]) == (1, 4)


@pytest.mark.parametrize("out", ["(NamedSharding(mesh, P()), NamedSharding(mesh, P()))", "NamedSharding(mesh, P())"])  # fmt: skip
def test_what_jit_says_about_shardings_is_changed_too(bench: Bench, out):
    whole = "NamedSharding(mesh, P())"
    text = program(jit="").replace(
        "    for _ in range(4)",
        f"    fast = jax.jit(step, in_shardings=({whole}, {whole}, NamedSharding(mesh, P('data'))),\n"
        f"                   out_shardings={out})\n"
        "    for _ in range(4)",
    ).replace("= step(params, mu, x)", "= fast(params, mu, x)")  # fmt: skip
    before, changes = changes_of(bench, text, shard_parameters.PROPOSAL)
    after = run_with(bench, text, changes[0])
    assert argument_bytes(after) < 0.6 * argument_bytes(before)


@pytest.mark.parametrize(
    ("x", "written"),
    [
        (
            "jax.device_put(np.ones((BATCH, WIDTH), np.float32))",
            "np.float32), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('data')))",
        ),
        (
            "np.ones((BATCH, WIDTH), np.float32)",
            "step(params, mu, jax.device_put(x, jax.sharding.NamedSharding(mesh, ",
        ),
    ],
)
def test_a_whole_batch_is_split_where_it_is_sent(bench: Bench, x, written):
    text = program(x=x)
    _, changes = changes_of(bench, text, shard_batch.PROPOSAL)
    assert [c.title for c in changes] == ["split x 4 ways over 'data'"]
    assert written in edited(text, changes[0].edits)
    after = run_with(bench, text, changes[0])
    assert after.program("jit_step").argument_bytes == 4 * 1024 * 1024 * 2 + 4096 * 512


def test_a_program_without_a_mesh_gets_one(bench: Bench):
    text = program(mesh="", params="jax.jit(init)(jax.random.key(0))", x="np.ones((BATCH, WIDTH), np.float32)")  # fmt: skip
    before, changes = changes_of(bench, text, shard_batch.PROPOSAL)
    titles = [c.title for c in changes]
    assert titles == ["split x 4 ways over 'data'", "split x 4 ways over 'data', and the state with it"]  # fmt: skip
    with_state = run_with(bench, text, changes[1])
    assert argument_bytes(with_state) < 0.3 * argument_bytes(before)


def test_a_batch_that_does_not_divide_is_said(bench: Bench):
    run = bench.run(program(x="jnp.ones((BATCH + 1, WIDTH))"), on="v5e:2x2")
    changes, reasons = proposed(shard_batch.PROPOSAL, situation_of(bench, run))
    assert not changes
    assert reasons == ["a batch of 4097 cannot be split 4 ways: make it a multiple of that"]
