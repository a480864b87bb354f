# vtpu check silent.py:step --on v5e:1x1
"""24 equal layers under `jax.lax.scan`: the compiler gets one."""

import jax
import jax.numpy as jnp

LAYERS, WIDTH = 24, 256


def layer(x, weights):
    q, k, v = (x @ weights[name] for name in ("q", "k", "v"))
    x = x + jax.nn.softmax(q @ k.T) @ v @ weights["out"]
    return x + jax.nn.gelu(x @ weights["up"]) @ weights["down"]


@jax.jit
def step(layers, x):
    def loss(layers):
        hidden, _ = jax.lax.scan(lambda h, weights: (layer(h, weights), None), x, layers)
        return jnp.square(hidden).mean()

    return jax.tree.map(lambda p, g: p - 0.1 * g, layers, jax.grad(loss)(layers))


def weights_of(*leading):
    sizes = {"q": 256, "k": 256, "v": 256, "out": 256, "up": 1024}
    wide = {name: (*leading, WIDTH, size) for name, size in sizes.items()}
    shapes = {**wide, "down": (*leading, 1024, WIDTH)}
    return {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}


args = (weights_of(LAYERS), jax.ShapeDtypeStruct((128, WIDTH), jnp.float32))
