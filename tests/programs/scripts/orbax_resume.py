"""Trains, saves with Orbax in the middle, goes on, then restores spread over all devices."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, HIDDEN, ROWS = 256, 1024, 64

mesh = Mesh(np.array(jax.devices()), ("data",))


@partial(jax.jit, donate_argnums=0)
def step(state, x):
    def loss(params):
        return jnp.mean(jnp.square(jnp.tanh(x @ params["up"]) @ params["down"]))

    grads = jax.grad(loss)(state["params"])
    params = jax.tree.map(lambda p, g: p - 0.1 * g, state["params"], grads)
    return {"params": params, "step": state["step"] + 1}


def train(state, steps):
    for _ in range(steps):
        state = step(state, rng.normal(size=(ROWS, WIDTH)).astype(np.float32))
    return state


rng = np.random.default_rng(0)
state = {
    "params": {"up": jnp.ones((WIDTH, HIDDEN)), "down": jnp.ones((HIDDEN, WIDTH))},
    "step": jnp.int32(0),
}
with ocp.CheckpointManager(Path("checkpoints").absolute()) as manager:
    state = train(state, 3)
    manager.save(3, args=ocp.args.StandardSave(state))
    state = train(state, 2)
    manager.wait_until_finished()
    print("saved", manager.all_steps())

    def spread(array):
        spec = P("data") if array.ndim else P()
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)

    wanted = jax.tree.map(spread, state)
    restored = manager.restore(3, args=ocp.args.StandardRestore(wanted))
print("restored", restored["params"]["up"].sharding.spec, jax.tree.map(jnp.shape, restored))
restored = train(restored, 2)
shard = restored["params"]["up"].addressable_shards[0]
print("trained on", len(restored["params"]["up"].sharding.device_set), "devices", shard.data.shape)
