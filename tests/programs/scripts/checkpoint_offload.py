"""`jax.checkpoint` that keeps named activations in host memory, and optimizer state that lives there."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import SingleDeviceSharding

LAYERS, ROWS, WIDTH, HIDDEN = 4, 2048, 512, 1024

device = SingleDeviceSharding(jax.devices()[0], memory_kind="device")
host = SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
policy = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=["hidden"],
    offload_src="device",
    offload_dst="pinned_host",
)


@partial(jax.checkpoint, policy=policy)
def block(x, weights):
    up, down = weights
    hidden = checkpoint_name(jnp.tanh(x @ up), "hidden")
    return x + hidden @ down, None


def loss(weights, x):
    x, _ = jax.lax.scan(block, x, weights)
    return jnp.mean(jnp.square(x))


@partial(jax.jit, donate_argnums=(0, 1), out_shardings=(device, host))
def step(weights, momentum, x):
    momentum = jax.device_put(momentum, device)
    grads = jax.grad(loss)(weights, x)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda w, m: w - 0.1 * m, weights, momentum), momentum


shapes = ((LAYERS, WIDTH, HIDDEN), (LAYERS, HIDDEN, WIDTH))
weights = tuple(jnp.ones(shape, device=device) for shape in shapes)
momentum = jax.device_put(jax.tree.map(jnp.zeros_like, weights), host)
x = jnp.ones((ROWS, WIDTH), device=device)
for _ in range(3):
    weights, momentum = step(weights, momentum, x)
print("weights in", {w.sharding.memory_kind for w in weights})
print("momentum in", {m.sharding.memory_kind for m in momentum})
