"""Blocks of Equinox with a function among their fields, called in a loop."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Block(eqx.Module):
    up: jax.Array
    down: jax.Array
    act: callable

    def __call__(self, x):
        return x + self.act(x @ self.up) @ self.down


class Model(eqx.Module):
    blocks: list

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return x


model = Model(
    [Block(jnp.zeros((256, 1024)), jnp.zeros((1024, 256)), jax.nn.gelu) for _ in range(3)]
)


@eqx.filter_jit
def step(model, x):
    grads = eqx.filter_grad(lambda m: jnp.square(m(x)).mean())(model)
    return eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads))


for _ in range(5):
    model = step(model, jnp.zeros((8192, 256)))
