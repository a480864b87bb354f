"""Trains a residual convolutional network on images that a network file system delivers, on one chip.

Shapes: B images, S side of an image, C channels, N residual blocks.
"""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

BLOCKS, CHANNELS, CLASSES, PATCH = 6, 256, 1000, 4
BATCH, SIDE, EPOCHS, IMAGES = 384, 128, 2, 2000


def init(key):
    keys = jax.random.split(key, 4)
    shapes = {
        "stem": (PATCH, PATCH, 3, CHANNELS),
        "first": (BLOCKS, 3, 3, CHANNELS, CHANNELS),
        "second": (BLOCKS, 3, 3, CHANNELS, CHANNELS),
        "head": (CHANNELS, CLASSES),
    }
    return {
        name: jax.random.normal(k, shape) * np.prod(shape[-4:-1]) ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def convolve(x, kernel, stride=1):
    return jax.lax.conv_general_dilated(
        x, kernel.astype(x.dtype), (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def normalize(x):
    """Batch normalisation without statistics of its own."""
    mean = x.mean(axis=(0, 1, 2), dtype=jnp.float32)
    variance = jnp.square(x - mean.astype(x.dtype)).mean(axis=(0, 1, 2), dtype=jnp.float32)
    return (x - mean.astype(x.dtype)) * jax.lax.rsqrt(variance + 1e-5).astype(x.dtype)


def block(x, weights):
    hidden = jax.nn.relu(normalize(convolve(x, weights["first"])))
    return jax.nn.relu(x + normalize(convolve(hidden, weights["second"]))), None


def loss_of(params, images, labels):
    """Mean cross-entropy of the images' classes: images[B, S, S, 3], labels[B] -> f32[]."""
    x = convolve(images.astype(jnp.bfloat16) / 255, params["stem"], PATCH)
    x, _ = jax.lax.scan(block, x, {k: params[k] for k in ("first", "second")})
    logits = x.mean(axis=(1, 2), dtype=jnp.float32) @ params["head"]
    picked = jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


@partial(jax.jit, donate_argnames=("params", "momentum"))
def step(params, momentum, images, labels):
    loss, grads = jax.value_and_grad(loss_of)(params, images, labels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 1e-2 * m, params, momentum), momentum, loss


abstract = jax.eval_shape(init, jax.random.key(0))
args = (
    abstract,
    abstract,
    jax.ShapeDtypeStruct((BATCH, SIDE, SIDE, 3), jnp.uint8),
    jax.ShapeDtypeStruct((BATCH,), jnp.int32),
)


@jax.jit
def init_state(key):
    params = init(key)
    return params, jax.tree.map(jnp.zeros_like, params)


def read(start, stop):
    """Images and labels of the training set, as the file system gives them."""
    time.sleep(0.25)
    rng = np.random.default_rng(start)
    images = np.frombuffer(rng.bytes((stop - start) * SIDE * SIDE * 3), np.uint8)
    return images.reshape(-1, SIDE, SIDE, 3), rng.integers(0, CLASSES, stop - start, np.int32)


def main():
    params, momentum = init_state(jax.random.key(0))
    losses = []
    for _ in range(EPOCHS):
        for start in range(0, IMAGES, BATCH):
            images, labels = jax.device_put(read(start, min(start + BATCH, IMAGES)))
            params, momentum, loss = step(params, momentum, images, labels)
            losses.append(loss)
    print("losses", *(f"{loss:.3f}" for loss in jax.device_get(losses)))


if __name__ == "__main__":
    main()
