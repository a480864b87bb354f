"""Trains a graph network that predicts a property of every atom of a large structure, on one chip.

Shapes: N nodes, E edges, D features, A types of atoms, L layers.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, TYPES, STEPS = 8, 128, 1024, 8
NODES, EDGES, OFFSETS = 131072, 1048576, 4


def init(key):
    keys = jax.random.split(key, 4)
    shapes = {
        "types": (TYPES, WIDTH),
        "offsets": (LAYERS, OFFSETS, WIDTH),
        "message": (LAYERS, WIDTH, WIDTH),
        "head": (WIDTH, WIDTH),
    }
    return {
        name: jax.random.normal(k, shape) * shape[-2] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def loss_of(params, types, edges, targets):
    """Mean squared error: types[N], edges = senders[E], receivers[E], offsets[4, E], targets[N] -> f32[]."""
    senders, receivers, offsets = edges

    @jax.checkpoint
    def layer(x, weights):
        sent = (x @ weights["message"].astype(x.dtype))[senders]
        bent = jnp.einsum("ke,kd->ed", offsets, weights["offsets"].astype(x.dtype))
        messages = jax.nn.silu(sent + bent)
        return x + jax.ops.segment_sum(messages, receivers, NODES), None

    x = params["types"][types]
    x, _ = jax.lax.scan(layer, x.astype(jnp.bfloat16), {k: params[k] for k in ("offsets", "message")})
    predicted = (jax.nn.silu(x @ params["head"].astype(x.dtype))).astype(jnp.float32).mean(axis=-1)
    return jnp.mean(jnp.square(predicted - targets))


@partial(jax.jit, donate_argnames=("params", "momentum"))
def step(params, momentum, types, edges, targets):
    loss, grads = jax.value_and_grad(loss_of)(params, types, edges, targets)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 1e-3 * m, params, momentum), momentum, loss


def array(*shape, dtype=jnp.int32):
    return jax.ShapeDtypeStruct(shape, dtype)


abstract = jax.eval_shape(init, jax.random.key(0))
edges = (array(EDGES), array(EDGES), array(OFFSETS, EDGES, dtype=jnp.bfloat16))
args = (abstract, abstract, array(NODES), edges, array(NODES, dtype=jnp.float32))


@jax.jit
def init_state(key):
    params = init(key)
    return params, jax.tree.map(jnp.zeros_like, params)


def structure(rng):
    """Atoms and their neighbours, as a parser of the file gives them."""
    senders, receivers = rng.integers(0, NODES, (2, EDGES), np.int32)
    offsets = rng.random((OFFSETS, EDGES), np.float32).astype(jnp.bfloat16)
    return rng.integers(0, TYPES, NODES, np.int32), (senders, receivers, offsets)


def main():
    rng = np.random.default_rng(0)
    types, edges = jax.device_put(structure(rng))
    params, momentum = init_state(jax.random.key(0))
    losses = []
    for _ in range(STEPS):
        targets = jax.device_put(rng.random(NODES, np.float32))
        params, momentum, loss = step(params, momentum, types, edges, targets)
        losses.append(loss)
    print("losses", *(f"{loss:.3f}" for loss in jax.device_get(losses)))


if __name__ == "__main__":
    main()
