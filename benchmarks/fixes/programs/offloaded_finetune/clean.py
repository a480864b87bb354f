"""Fine-tunes an encoder on one chip, with the moments of Adam beside the weights.

Shapes: B batch, T sequence, D model, F feed-forward, H heads, L layers, V vocabulary.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, HIDDEN, HEADS, VOCABULARY, CLASSES = 16, 1024, 4096, 8, 16384, 256
BATCH, LENGTH, STEPS = 32, 256, 8


def init(key):
    keys = jax.random.split(key, 4)
    shapes = {
        "embedding": (VOCABULARY, WIDTH),
        "inside": (LAYERS, WIDTH, 3 * WIDTH + HIDDEN),
        "outside": (LAYERS, WIDTH + HIDDEN, WIDTH),
        "head": (WIDTH, CLASSES),
    }
    return {
        name: jax.random.normal(k, shape) * shape[-2] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def normalize(x):
    x32 = x.astype(jnp.float32)
    return (x32 * jax.lax.rsqrt(jnp.mean(jnp.square(x32), -1, keepdims=True) + 1e-6)).astype(x.dtype)


def attention(q, k, v):
    """Attention of heads: [B, T, D] each -> [B, T, D]."""
    q, k, v = (a.reshape(*a.shape[:2], HEADS, -1) for a in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(*v.shape[:2], WIDTH)


@jax.checkpoint
def layer(x, weights):
    """Attention and feed-forward side by side: x[B, T, D] -> x[B, T, D]."""
    inside = normalize(x) @ weights["inside"].astype(x.dtype)
    q, k, v, hidden = jnp.split(inside, (WIDTH, 2 * WIDTH, 3 * WIDTH), axis=-1)
    both = jnp.concatenate((attention(q, k, v), jax.nn.gelu(hidden)), axis=-1)
    return x + both @ weights["outside"].astype(x.dtype), None


def loss_of(params, tokens, labels):
    """Mean cross-entropy of the texts' classes: tokens[B, T], labels[B] -> f32[]."""
    x = params["embedding"].astype(jnp.bfloat16)[tokens]
    x, _ = jax.lax.scan(layer, x, {k: params[k] for k in ("inside", "outside")})
    logits = normalize(x).mean(axis=1).astype(jnp.float32) @ params["head"]
    picked = jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)


@partial(jax.jit, donate_argnames=("params", "moments"))
def step(params, moments, tokens, labels):
    """One step of Adam; `moments` are the first and the second."""
    loss, grads = jax.value_and_grad(loss_of)(params, tokens, labels)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
    second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, moments[1], grads)
    params = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return params, (first, second), loss


abstract = jax.eval_shape(init, jax.random.key(0))
tokens = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32)
args = (abstract, (abstract, abstract), tokens, jax.ShapeDtypeStruct((BATCH,), jnp.int32))


@jax.jit
def init_state(key):
    params = init(key)
    return params, (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))


@jax.jit
def smooth(average, loss):
    return 0.9 * average + 0.1 * loss


def main():
    rng = np.random.default_rng(0)
    params, moments = init_state(jax.random.key(0))
    average = jnp.zeros(())
    for _ in range(STEPS):
        tokens = rng.integers(0, VOCABULARY, (BATCH, LENGTH), np.int32)
        labels = rng.integers(0, CLASSES, BATCH, np.int32)
        params, moments, loss = step(params, moments, *jax.device_put((tokens, labels)))
        average = smooth(average, loss)
    print(f"average {average:.3f}")


if __name__ == "__main__":
    main()
