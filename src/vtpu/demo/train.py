"""Trains a small decoder-only language model, sharded over every device JAX shows.

An ordinary JAX script: it knows nothing of vtpu and runs the same on a TPU, a CPU or a virtual slice.
The batch is split over the devices, parameters and optimizer state too (FSDP), the step donates its
state, the layers are scanned and checkpointed. Shapes: B batch, T sequence, D model, F feed-forward,
H heads, K head size, V vocabulary, L layers.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HIDDEN, HEADS, VOCABULARY = 4, 256, 1024, 4, 4096
BATCH_PER_DEVICE, LENGTH, STEPS = 1, 128, 8

mesh = Mesh(np.array(jax.devices()), ("data",))


def on_mesh(*spec):
    return NamedSharding(mesh, P(*spec))


def init(key):
    """Parameters: embedding[V, D], per layer qkv[L, D, 3D], out[L, D, D], up[L, D, F], down[L, F, D]."""
    keys = jax.random.split(key, 5)
    shapes = {
        "embedding": (VOCABULARY, WIDTH),
        "qkv": (LAYERS, WIDTH, 3 * WIDTH),
        "out": (LAYERS, WIDTH, WIDTH),
        "up": (LAYERS, WIDTH, HIDDEN),
        "down": (LAYERS, HIDDEN, WIDTH),
    }
    return {
        name: jax.random.normal(k, shape) * shape[-2] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def normalize(x):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6)


@jax.checkpoint
def layer(x, weights):
    """A transformer block: x[B, T, D] -> x[B, T, D]."""
    q, k, v = jnp.split(normalize(x) @ weights["qkv"].astype(x.dtype), 3, axis=-1)
    q, k, v = (a.reshape(*a.shape[:2], HEADS, -1) for a in (q, k, v))
    attended = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + attended.reshape(x.shape) @ weights["out"].astype(x.dtype)
    hidden = jax.nn.gelu(normalize(x) @ weights["up"].astype(x.dtype))
    return x + hidden @ weights["down"].astype(x.dtype), None


def loss(params, tokens):
    """Mean cross-entropy of the next token: tokens[B, T + 1] -> f32[]."""
    x = params["embedding"].astype(jnp.bfloat16)[tokens[:, :-1]]
    x, _ = jax.lax.scan(layer, x, {k: v for k, v in params.items() if k != "embedding"})
    logits = normalize(x) @ params["embedding"].astype(x.dtype).T
    picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1) - picked)


@partial(jax.jit, donate_argnums=0)
def step(state, tokens):
    """One step of Adam. `state` is (params, first moment, second moment)."""
    params, m, v = state
    value, grads = jax.value_and_grad(loss)(params, tokens)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, grads)
    params = jax.tree.map(lambda p, a, b: p - 1e-3 * a / (jnp.sqrt(b) + 1e-8), params, m, v)
    return (params, m, v), value


def batches(seed):
    """Random tokens, made on this host for this host's devices."""
    rng = np.random.default_rng(seed)
    rows = BATCH_PER_DEVICE * jax.local_device_count()
    while True:
        tokens = rng.integers(0, VOCABULARY, (rows, LENGTH + 1), np.int32)
        yield jax.make_array_from_process_local_data(on_mesh("data"), tokens)


def spread(array):
    """The largest dimension that the devices divide is split over them."""
    sizes = array.shape
    fitting = [i for i, n in enumerate(sizes) if n % mesh.size == 0]
    if not fitting:
        return on_mesh()
    axis = max(fitting, key=lambda i: sizes[i])
    return on_mesh(*("data" if i == axis else None for i in range(len(sizes))))


def main():
    shapes = jax.eval_shape(init, jax.random.key(0))
    shardings = jax.tree.map(spread, shapes)
    params = jax.jit(init, out_shardings=shardings)(jax.random.key(0))
    zeros = jax.jit(partial(jax.tree.map, jnp.zeros_like), out_shardings=shardings)
    state = (params, zeros(params), zeros(params))
    data = batches(seed=jax.process_index())
    print(f"{jax.device_count()} x {jax.devices()[0].device_kind}, host {jax.process_index()}")
    for number in range(STEPS):
        state, value = step(state, next(data))
        if number % 4 == 3:
            print(f"step {number + 1}: loss {float(value):.3f}")


if __name__ == "__main__":
    main()
