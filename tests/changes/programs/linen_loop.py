"""Blocks of Flax's Linen, made in a loop."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x):
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(self.width)(x)))


class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        for i in range(3):  # noqa: B007, a name that a change may use
            x = Block(1024)(x)
        return x


model = Model()


def loss(params, x):
    return jnp.square(model.apply(params, x)).mean()


step = jax.jit(jax.grad(loss))
x = jax.ShapeDtypeStruct((8192, 256), jnp.float32)
args = (jax.eval_shape(model.init, jax.random.key(0), x), x)
