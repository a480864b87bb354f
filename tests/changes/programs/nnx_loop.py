"""Blocks of Flax's nnx with dropout, called in a loop."""

import jax
import jax.numpy as jnp
from flax import nnx


class Block(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(256, 1024, rngs=rngs)
        self.down = nnx.Linear(1024, 256, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x):
        return x + self.dropout(self.down(nnx.gelu(self.up(x))))


class Model(nnx.Module):
    def __init__(self, rngs):
        self.blocks = nnx.List([Block(rngs) for _ in range(3)])

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@nnx.jit
def step(model, x):
    grads = nnx.grad(lambda m: jnp.square(m(x)).mean())(model)
    nnx.update(model, jax.tree.map(lambda a, b: a - 0.1 * b, nnx.state(model, nnx.Param), grads))


model = nnx.eval_shape(lambda: Model(nnx.Rngs(0)))
args = (model, jax.ShapeDtypeStruct((8192, 256), jnp.float32))
