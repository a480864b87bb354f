"""A mixture of experts: tokens sorted by expert, products of ragged groups, and their gradients."""

import jax
import jax.numpy as jnp
from jax import lax


def experts(weights, x, sizes):
    up = lax.ragged_dot(x, weights["up"], sizes)
    return lax.ragged_dot(jax.nn.relu(up), weights["down"], sizes)


@jax.jit
def step(weights, x, sizes):
    loss, grads = jax.value_and_grad(lambda w: jnp.mean((experts(w, x, sizes) - x) ** 2))(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, grads), loss


up, down = jax.random.split(jax.random.key(0))
weights = {
    "up": jax.random.normal(up, (4, 8, 16)) * 0.1,
    "down": jax.random.normal(down, (4, 16, 8)) * 0.1,
}
x = jax.random.normal(jax.random.key(1), (32, 8))
for sizes in ([8, 8, 8, 8], [0, 30, 2, 0], [1, 2, 3, 4]):
    weights, loss = step(weights, x, jnp.array(sizes))
    print(float(loss), jnp.abs(weights["up"]).sum((1, 2)))
half = [jax.tree.map(lambda a: a.astype(jnp.bfloat16), a) for a in (x, weights["up"])]
print(lax.ragged_dot(*half, jnp.array([4, 4, 4, 20]), preferred_element_type=jnp.float32)[::9, :3])
