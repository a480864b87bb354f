"""Trains a diffusion model, a small U-Net that predicts the noise of latents, with an average of its weights.

Shapes: B images, S side, C channels, N blocks on each level.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

BLOCKS, CHANNELS, LATENT, LEVELS = 4, 256, 4, 1000
BATCH, SIDE, STEPS = 192, 64, 8


def init(key):
    keys = jax.random.split(key, 8)
    shapes = {
        "time": (2, BLOCKS, CHANNELS, CHANNELS),
        "enter": (LATENT, CHANNELS),
        "fine": (BLOCKS, 3, 3, CHANNELS, CHANNELS),
        "coarse": (BLOCKS, 3, 3, CHANNELS, CHANNELS),
        "up": (2 * CHANNELS, CHANNELS),
        "leave": (CHANNELS, LATENT),
    }
    return {
        name: jax.random.normal(k, shape) * np.prod(shape[-4:-1]) ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def convolve(x, kernel):
    return jax.lax.conv_general_dilated(
        x, kernel.astype(x.dtype), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def normalize(x):
    x32 = x.astype(jnp.float32)
    return (x32 * jax.lax.rsqrt(jnp.mean(jnp.square(x32), -1, keepdims=True) + 1e-6)).astype(x.dtype)


def blocks(x, kernels, projections, embedded):
    """Residual blocks x[B, S, S, C] -> x[B, S, S, C], told the time by `embedded`[B, C]."""

    @jax.checkpoint
    def block(x, weights):
        kernel, projection = weights
        shift = (embedded @ projection)[:, None, None].astype(x.dtype)
        return x + convolve(jax.nn.silu(normalize(x) + shift), kernel), None

    return jax.lax.scan(block, x, (kernels, projections))[0]


def predict(params, x, levels):
    """The noise in x[B, S, S, 4] at noise levels[B]."""
    waves = levels[:, None] * jnp.exp(-jnp.arange(CHANNELS // 2) / 16.0)
    embedded = jnp.concatenate((jnp.sin(waves), jnp.cos(waves)), axis=-1)
    fine = blocks(x @ params["enter"].astype(x.dtype), params["fine"], params["time"][0], embedded)
    smaller = fine.reshape(BATCH, SIDE // 2, 2, SIDE // 2, 2, CHANNELS).mean(axis=(2, 4))
    coarse = blocks(smaller, params["coarse"], params["time"][1], embedded)
    wide = jnp.repeat(jnp.repeat(coarse, 2, axis=1), 2, axis=2)
    up = jnp.concatenate((fine, wide), axis=-1) @ params["up"].astype(x.dtype)
    return jax.nn.silu(normalize(up)) @ params["leave"].astype(x.dtype)


def loss_of(params, latents, noise, levels):
    """Mean squared error of the predicted noise."""
    share = (levels / LEVELS)[:, None, None, None].astype(latents.dtype)
    predicted = predict(params, jnp.sqrt(1 - share) * latents + jnp.sqrt(share) * noise, levels)
    return jnp.mean(jnp.square((predicted - noise).astype(jnp.float32)))


@partial(jax.jit, donate_argnames=("params", "ema", "momentum"))
def step(params, ema, momentum, latents, noise, levels):
    loss, grads = jax.value_and_grad(loss_of)(params, latents, noise, levels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = jax.tree.map(lambda p, m: p - 1e-3 * m, params, momentum)
    ema = jax.tree.map(lambda e, p: 0.999 * e + 0.001 * p, ema, params)
    return params, ema, momentum, loss


abstract = jax.eval_shape(init, jax.random.key(0))
images = jax.ShapeDtypeStruct((BATCH, SIDE, SIDE, LATENT), jnp.bfloat16)
args = (abstract, abstract, abstract, images, images, jax.ShapeDtypeStruct((BATCH,), jnp.float32))


@jax.jit
def init_state(key):
    params = init(key)
    return params, params, jax.tree.map(jnp.zeros_like, params)


@jax.jit
def batch(key):
    """Latents of images, which an encoder would give, noise, and how much of it."""
    keys = jax.random.split(key, 3)
    latents, noise = (jax.random.normal(k, images.shape, images.dtype) for k in keys[:2])
    return latents, noise, jax.random.uniform(keys[2], (BATCH,)) * LEVELS


@jax.jit
def smooth(average, loss):
    return 0.9 * average + 0.1 * loss


def main():
    state = init_state(jax.random.key(0))
    average, keys = jnp.zeros(()), jax.random.split(jax.random.key(1), STEPS)
    for key in keys:
        *state, loss = step(*state, *batch(key))
        average = smooth(average, loss)
    print(f"average {average:.3f}")


if __name__ == "__main__":
    main()
