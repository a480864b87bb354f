"""Trains a vision transformer on the four chips of a slice.

Shapes: B images, T patches of each, D model, F feed-forward, H heads, L layers.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HIDDEN, HEADS, CLASSES = 4, 512, 2048, 4, 1000
BATCH, SIDE, PATCH, STEPS = 48, 256, 8, 8
PATCHES = (SIDE // PATCH) ** 2

mesh = Mesh(np.array(jax.devices()), ("data",))


def on_mesh(*spec):
    return NamedSharding(mesh, P(*spec))


def init(key):
    keys = jax.random.split(key, 4)
    shapes = {
        "patches": (PATCH * PATCH * 3, WIDTH),
        "inside": (LAYERS, WIDTH, 3 * WIDTH + HIDDEN),
        "outside": (LAYERS, WIDTH + HIDDEN, WIDTH),
        "head": (WIDTH, CLASSES),
    }
    return {
        name: jax.random.normal(k, shape) * shape[-2] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def normalize(x):
    x32 = x.astype(jnp.float32)
    return (x32 * jax.lax.rsqrt(jnp.mean(jnp.square(x32), -1, keepdims=True) + 1e-6)).astype(x.dtype)


def attention(q, k, v):
    """Attention of all patches of an image to each other: [B, T, D] each -> [B, T, D]."""
    q, k, v = (a.reshape(*a.shape[:2], HEADS, -1) for a in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    shares = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", shares.astype(v.dtype), v).reshape(*v.shape[:2], WIDTH)


def layer(x, weights):
    """Attention and feed-forward side by side: x[B, T, D] -> x[B, T, D]."""
    inside = normalize(x) @ weights["inside"].astype(x.dtype)
    q, k, v, hidden = jnp.split(inside, (WIDTH, 2 * WIDTH, 3 * WIDTH), axis=-1)
    both = jnp.concatenate((attention(q, k, v), jax.nn.gelu(hidden)), axis=-1)
    return x + both @ weights["outside"].astype(x.dtype), None


def cut(images):
    """images[B, S, S, 3] -> patches[B, T, P * P * 3]."""
    grid = images.reshape(BATCH, SIDE // PATCH, PATCH, SIDE // PATCH, PATCH * 3)
    return grid.transpose(0, 1, 3, 2, 4).reshape(BATCH, PATCHES, PATCH * PATCH * 3)


def loss_of(params, images, labels):
    """Mean cross-entropy of the images' classes."""
    x = cut(images.astype(jnp.bfloat16) / 255) @ params["patches"].astype(jnp.bfloat16)
    x, _ = jax.lax.scan(layer, x, {k: params[k] for k in ("inside", "outside")})
    logits = normalize(x).mean(axis=1).astype(jnp.float32) @ params["head"]
    picked = jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


@partial(jax.jit, donate_argnames=("params", "momentum"))
def step(params, momentum, images, labels):
    loss, grads = jax.value_and_grad(loss_of)(params, images, labels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 1e-2 * m, params, momentum), momentum, loss


def array(shape, dtype, *spec):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=on_mesh(*spec))


abstract = {k: array(a.shape, a.dtype) for k, a in jax.eval_shape(init, jax.random.key(0)).items()}
args = (abstract, abstract, array((BATCH, SIDE, SIDE, 3), jnp.uint8), array((BATCH,), jnp.int32))


@partial(jax.jit, out_shardings=on_mesh())
def init_state(key):
    params = init(key)
    return params, jax.tree.map(jnp.zeros_like, params)


def main():
    rng = np.random.default_rng(0)
    params, momentum = init_state(jax.random.key(0))
    losses = []
    for _ in range(STEPS):
        images = jnp.asarray(rng.integers(0, 256, (BATCH, SIDE, SIDE, 3), np.uint8))
        labels = jnp.asarray(rng.integers(0, CLASSES, (BATCH,), np.int32))
        params, momentum, loss = step(params, momentum, images, labels)
        losses.append(loss)
    print("losses", *(f"{loss:.3f}" for loss in jax.device_get(losses)))


if __name__ == "__main__":
    main()
