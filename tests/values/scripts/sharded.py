"""Training on eight devices: the batch is split, the weights too, the state is donated."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("data", "model"))
split = partial(NamedSharding, mesh)
rng = np.random.default_rng(0)


def loss(w, x, y):
    hidden = jnp.tanh(x @ w["in"])
    return jnp.mean((hidden @ w["out"] - y) ** 2)


@partial(jax.jit, donate_argnums=0)
def step(state, x, y):
    number, w = state
    value, grads = jax.value_and_grad(loss)(w, x, y)
    return (number + 1, jax.tree.map(lambda p, g: p - 0.3 * g, w, grads)), value


w = {"in": rng.normal(size=(16, 32)), "out": rng.normal(size=(32, 4))}
w = jax.tree.map(lambda a: a.astype(np.float32) / 4, w)
w = jax.device_put(w, {"in": split(P(None, "model")), "out": split(P("model", None))})
state = (jax.device_put(jnp.int32(0), split(P())), w)
for number in range(8):
    x = rng.normal(size=(64, 16)).astype(np.float32)
    x, y = jax.device_put((x, np.sin(x[:, :4])), split(P("data")))
    state, value = step(state, x, y)
    print(int(state[0]), f"{float(value):.5f}")
total = jax.shard_map(
    lambda a: jax.lax.psum(jnp.sum(a) * jax.lax.axis_index("data"), ("data", "model")),
    mesh=mesh,
    in_specs=P("data", "model"),
    out_specs=P(),
)(jnp.arange(64.0).reshape(8, 8))
print(total, [float(s.data[0, 0]) for s in state[1]["in"].addressable_shards][:2])
