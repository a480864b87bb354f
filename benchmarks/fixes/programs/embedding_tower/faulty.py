"""Trains two towers for retrieval: users and the items that they chose get embeddings that are near each other.

Shapes: B pairs of a batch, D embedding, H hidden.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

USERS, ITEMS, WIDTH, HIDDEN = 1_999_999, 4_194_304, 128, 4096
BATCH, STEPS = 16384, 8

mesh = Mesh(np.array(jax.devices()), ("data",))


def on_mesh(*spec):
    return NamedSharding(mesh, P(*spec))


def init(key):
    keys = jax.random.split(key, 4)
    shapes = {
        "users": (USERS, WIDTH),
        "items": (ITEMS, WIDTH),
        "wide": (2, WIDTH, HIDDEN),
        "narrow": (2, HIDDEN, WIDTH),
    }
    return {
        name: jax.random.normal(k, shape) * WIDTH**-0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def spread(array):
    """Tables are split over the chips by their rows; each chip has the small matrices."""
    is_table = array.ndim == 2
    return on_mesh("data") if is_table and array.shape[0] % mesh.size == 0 else on_mesh()


def tower(x, wide, narrow):
    x = x.astype(jnp.bfloat16)
    return x + jax.nn.relu(x @ wide.astype(x.dtype)) @ narrow.astype(x.dtype)


def loss_of(params, users, items):
    """Cross-entropy of each user's item among all items of the batch, and how many have it nearest."""
    left = tower(params["users"][users], params["wide"][0], params["narrow"][0])
    right = tower(params["items"][items], params["wide"][1], params["narrow"][1])
    alike = jnp.einsum("id,jd->ij", *(a.astype(jnp.float32) for a in (left, right)), precision="highest")
    own = jnp.einsum("id,id->i", left, right, preferred_element_type=jnp.float32)
    return jnp.mean(jax.nn.logsumexp(alike, axis=-1) - own), (own >= alike.max(axis=-1)).sum()


def array(shape, dtype, *spec):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=on_mesh(*spec))


shapes = jax.eval_shape(init, jax.random.key(0))
shardings = jax.tree.map(spread, shapes)
abstract = jax.tree.map(lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s), shapes, shardings)
pairs = array((BATCH,), jnp.int32, "data")
args = (abstract, abstract, pairs, pairs)
results = (shardings, shardings, on_mesh(), on_mesh())


@partial(jax.jit, donate_argnames=("params", "momentum"), out_shardings=results)
def step(params, momentum, users, items):
    (loss, hits), grads = jax.value_and_grad(loss_of, has_aux=True)(params, users, items)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 1e-2 * m, params, momentum), momentum, loss, hits


@jax.jit
def init_state(key):
    params = init(key)
    return params, jax.tree.map(jnp.zeros_like, params)


def main():
    rng = np.random.default_rng(0)
    params, momentum = jax.device_put(init_state(jax.random.key(0)), (shardings, shardings))
    history = []
    for _ in range(STEPS):
        users, items = rng.integers(0, USERS, BATCH), rng.integers(0, ITEMS, BATCH)
        users, items = jax.device_put((np.int32(users), np.int32(items)), on_mesh("data"))
        params, momentum, *found = step(params, momentum, users, items)
        history.append(found)
    for loss, hits in jax.device_get(history):
        print(f"loss {loss:.3f}, {hits} of {BATCH} found")


if __name__ == "__main__":
    main()
