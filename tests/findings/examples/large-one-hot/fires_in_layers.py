# vtpu check fires_in_layers.py:step --on v5e:1x1
"""Each layer keeps the one-hot places of its tokens in experts, weighted, for the backward pass."""

import jax
import jax.numpy as jnp

LAYERS, TOKENS, WIDTH, EXPERTS, PLACES = 4, 4096, 256, 4, 1024


def layer(x, weights):
    shares = jax.nn.softmax(x @ weights["router"])
    best = jax.nn.one_hot(shares.argmax(axis=-1), EXPERTS)
    place = jnp.cumsum(best, axis=0) * best - 1
    sent = jax.nn.one_hot(place.astype(jnp.int32), PLACES) * shares[..., None]  # [T, E, C]
    hidden = jnp.tanh(jnp.einsum("tec,td,edf->ecf", sent, x, weights["up"]))
    return x + jnp.einsum("tec,ecf,efd->td", sent, hidden, weights["down"]), None


def loss(weights, x):
    x, _ = jax.lax.scan(layer, x, weights)
    return jnp.square(x).mean()


step = jax.jit(jax.grad(loss))
shapes = {"router": (WIDTH, EXPERTS), "up": (EXPERTS, WIDTH, 512), "down": (EXPERTS, 512, WIDTH)}
args = (
    {k: jax.ShapeDtypeStruct((LAYERS, *s), jnp.float32) for k, s in shapes.items()},
    jax.ShapeDtypeStruct((TOKENS, WIDTH), jnp.float32),
)
