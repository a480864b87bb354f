"""A scanned block of Flax's Linen."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, _):
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(self.width)(x))), None


class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        layers = nn.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=6)
        x, _ = layers(1024)(x, None)
        return x


model = Model()


def loss(params, x):
    return jnp.square(model.apply(params, x)).mean()


step = jax.jit(jax.grad(loss))
x = jax.ShapeDtypeStruct((8192, 256), jnp.float32)
args = (jax.eval_shape(model.init, jax.random.key(0), x), x)
