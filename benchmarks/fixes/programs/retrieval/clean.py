"""Serves a search on one chip: queries are encoded and compared with all documents.

Shapes: B queries at a time, W words of a query, D encoding, F hidden, N documents, L layers.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, HIDDEN, WORDS = 32, 1024, 4096, 32768
DOCUMENTS, QUERIES, LONGEST, STEPS = 16384, 1024, 32, 12


def init(key):
    keys = jax.random.split(key, 4)
    shapes = {
        "words": (WORDS, WIDTH),
        "up": (LAYERS, WIDTH, HIDDEN),
        "down": (LAYERS, HIDDEN, WIDTH),
        "documents": (DOCUMENTS, WIDTH),
    }
    return {
        name: jax.random.normal(k, shape, jnp.bfloat16) * shape[-2] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def encode(params, queries):
    """queries[B, W] -> [B, D]."""

    def layer(x, weights):
        up, down = weights
        return x + jax.nn.relu(x @ up) @ down, None

    x = params["words"][queries].mean(axis=1)
    return jax.lax.scan(layer, x, (params["up"], params["down"]))[0]


@jax.jit
def step(params, queries):
    """The nearest document of each of queries[B, W], and how near it is."""
    x = encode(params, queries)
    near = jnp.einsum("bd,nd->bn", x, params["documents"], preferred_element_type=jnp.float32)
    return near.argmax(axis=-1), near.max(axis=-1)


args = (jax.eval_shape(init, jax.random.key(0)), jax.ShapeDtypeStruct((QUERIES, LONGEST), jnp.int32))


def main():
    rng = np.random.default_rng(1)
    params = jax.jit(init)(jax.random.key(0))
    requests = [rng.integers(0, WORDS, (QUERIES, LONGEST), np.int32) for _ in range(STEPS)]
    step(params, jax.device_put(requests[0]))
    found = []
    began = time.perf_counter()
    for queries in requests:
        found.append(step(params, jax.device_put(queries)))
    jax.block_until_ready(found)
    seconds = time.perf_counter() - began
    print(f"{QUERIES * STEPS / seconds:,.0f} queries per second; the last found", found[-1][0])


if __name__ == "__main__":
    main()
