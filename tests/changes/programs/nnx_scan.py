"""A scanned block of Flax's nnx."""

import jax
import jax.numpy as jnp
from flax import nnx


class Block(nnx.Module):
    def __init__(self, rngs):
        self.up = nnx.Linear(256, 1024, rngs=rngs)
        self.down = nnx.Linear(1024, 256, rngs=rngs)

    def __call__(self, x):
        return x + self.down(nnx.gelu(self.up(x)))


class Model(nnx.Module):
    def __init__(self, rngs):
        @nnx.split_rngs(splits=6)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def make(rngs):
            return Block(rngs)

        self.blocks = make(rngs)

    def __call__(self, x):
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def forward(x, block):
            return block(x)

        return forward(x, self.blocks)


@nnx.jit
def step(model, x):
    grads = nnx.grad(lambda m: jnp.square(m(x)).mean())(model)
    nnx.update(model, jax.tree.map(lambda a, b: a - 0.1 * b, nnx.state(model, nnx.Param), grads))


model = nnx.eval_shape(lambda: Model(nnx.Rngs(0)))
args = (model, jax.ShapeDtypeStruct((8192, 256), jnp.float32))
