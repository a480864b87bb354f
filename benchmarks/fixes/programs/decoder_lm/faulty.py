"""Trains a decoder language model with Adam on one chip.

Shapes: B batch, T sequence, D model, F feed-forward, H heads, V vocabulary, L layers.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, HIDDEN, HEADS, VOCABULARY = 24, 512, 2048, 4, 32768
BATCH, LENGTH, STEPS = 32, 256, 10


def init(key):
    keys = jax.random.split(key, 3)
    shapes = {
        "embedding": (VOCABULARY, WIDTH),
        "inside": (LAYERS, WIDTH, 3 * WIDTH + HIDDEN),
        "outside": (LAYERS, WIDTH + HIDDEN, WIDTH),
    }
    return {
        name: jax.random.normal(k, shape) * shape[-2] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def normalize(x):
    x32 = x.astype(jnp.float32)
    return (x32 * jax.lax.rsqrt(jnp.mean(jnp.square(x32), -1, keepdims=True) + 1e-6)).astype(x.dtype)


def attention(q, k, v):
    """Causal attention of heads: [B, T, D] each -> [B, T, D]."""
    q, k, v = (a.reshape(*a.shape[:2], HEADS, -1) for a in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    shares = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(*v.shape[:2], WIDTH)


def layer(x, weights):
    """Attention and feed-forward side by side: x[B, T, D] -> x[B, T, D]."""
    inside = normalize(x) @ weights["inside"].astype(x.dtype)
    q, k, v, hidden = jnp.split(inside, (WIDTH, 2 * WIDTH, 3 * WIDTH), axis=-1)
    both = jnp.concatenate((attention(q, k, v), jax.nn.gelu(hidden)), axis=-1)
    return x + both @ weights["outside"].astype(x.dtype), None


def loss_of(params, tokens):
    """Mean cross-entropy of the next token: tokens[B, T + 1] -> f32[]."""
    x = params["embedding"].astype(jnp.bfloat16)[tokens[:, :-1]]
    x, _ = jax.lax.scan(layer, x, {k: v for k, v in params.items() if k != "embedding"})
    logits = (normalize(x) @ params["embedding"].astype(x.dtype).T).astype(jnp.float32)
    picked = jax.nn.log_softmax(logits) * jax.nn.one_hot(tokens[:, 1:], VOCABULARY)
    return -picked.sum(axis=-1).mean()


@jax.jit
def step(params, moments, tokens):
    """One step of Adam; `moments` are the first and the second."""
    loss, grads = jax.value_and_grad(loss_of)(params, tokens)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
    second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, moments[1], grads)
    params = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return params, (first, second), loss


abstract = jax.eval_shape(init, jax.random.key(0))
args = (abstract, (abstract, abstract), jax.ShapeDtypeStruct((BATCH, LENGTH + 1), jnp.int32))


@jax.jit
def init_state(key):
    params = init(key)
    return params, (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))


def batches(rng):
    """Rows of tokens, each filled with documents that end with token 0."""
    while True:
        rows = rng.integers(1, VOCABULARY, (BATCH, LENGTH + 1), np.int32)
        for row in rows:
            row[np.cumsum(rng.geometric(0.02, LENGTH)) % LENGTH] = 0
        yield jax.device_put(rows)


def main():
    params, moments = init_state(jax.random.key(0))
    data = batches(np.random.default_rng(0))
    for number in range(STEPS):
        began = time.perf_counter()
        params, moments, loss = step(params, moments, next(data))
        print(f"step {number}: loss {float(loss):.3f}, {time.perf_counter() - began:.3f} s")


if __name__ == "__main__":
    main()
