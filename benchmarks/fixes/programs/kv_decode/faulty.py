"""Serves a decoder language model on one chip: reads prompts, then writes on, several drafted tokens at a time.

A draft model proposes K tokens for each of B texts; this one says for each whether it would have written it.
All heads share one key and value. Shapes: D model, F feed-forward, H heads, C head size, T longest text,
V vocabulary, L layers.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, HIDDEN, HEADS, HEAD, VOCABULARY = 16, 2048, 8192, 16, 128, 8192
TEXTS, DRAFTED, LONGEST, STEPS, END = 160, 16, 4096, 24, 1


def init(key):
    """Weights in float32, as they were trained."""
    keys = jax.random.split(key, 3)
    shapes = {
        "embedding": (VOCABULARY, WIDTH),
        "inside": (LAYERS, WIDTH, (HEADS + 2) * HEAD + HIDDEN),
        "outside": (LAYERS, HEADS * HEAD + HIDDEN, WIDTH),
    }
    return {
        name: jax.random.normal(k, shape) * shape[-2] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def normalize(x):
    x32 = x.astype(jnp.float32)
    return (x32 * jax.lax.rsqrt(jnp.mean(jnp.square(x32), -1, keepdims=True) + 1e-6)).astype(x.dtype)


def attention(q, keys, values, start):
    """q[B, K, H, C] from position `start` on, over keys[B, T, C] that are known up to there: [B, K, H * C]."""
    scores = jnp.einsum("bkhc,btc->bkht", q, keys) * HEAD**-0.5
    seen = jnp.arange(keys.shape[1]) <= start + jnp.arange(q.shape[1])[:, None]
    shares = jax.nn.softmax(jnp.where(seen[:, None], scores, -1e9), axis=-1)
    return jnp.einsum("bkht,btc->bkhc", shares, values).reshape(*q.shape[:2], HEADS * HEAD)


def layers(params, cache, tokens, start):
    """The model over tokens[B, K] from position `start`: their states[B, K, D], and the cache with them."""

    def layer(carry, weights):
        x, cache = carry
        number, inside, outside = weights
        parts = jnp.split(normalize(x) @ inside, np.cumsum([HEADS * HEAD, HEAD, HEAD]), axis=-1)
        q, key, value, hidden = parts
        place = (number, 0, start, 0)
        cache = {
            "keys": jax.lax.dynamic_update_slice(cache["keys"], key[None], place),
            "values": jax.lax.dynamic_update_slice(cache["values"], value[None], place),
        }
        q = q.reshape(*q.shape[:2], HEADS, HEAD)
        read = attention(q, cache["keys"][number], cache["values"][number], start)
        x = x + jnp.concatenate((read, jax.nn.gelu(hidden)), axis=-1) @ outside
        return (x, cache), None

    weights = (jnp.arange(LAYERS), params["inside"], params["outside"])
    (x, cache), _ = jax.lax.scan(layer, (params["embedding"][tokens], cache), weights)
    return normalize(x), cache


@jax.jit
def step(params, cache, tokens, position):
    """What the model would have written instead of drafted tokens[B, K] at `position`; the cache with them."""
    x, cache = layers(params, cache, tokens, position)
    return jnp.argmax(x @ params["embedding"].T, axis=-1), cache


def array(*shape, dtype=jnp.bfloat16):
    return jax.ShapeDtypeStruct(shape, dtype)


convert = jax.jit(partial(jax.tree.map, lambda a: a.astype(jnp.bfloat16)))
abstract = jax.eval_shape(convert, jax.eval_shape(init, jax.random.key(0)))
cache = dict.fromkeys(("keys", "values"), array(LAYERS, TEXTS, LONGEST, HEAD))
args = (abstract, cache, array(TEXTS, DRAFTED, dtype=jnp.int32), array(dtype=jnp.int32))


@jax.jit
def init_cache():
    return {name: jnp.zeros(a.shape, a.dtype) for name, a in cache.items()}


@jax.jit
def screen(params, prompt):
    """How sure a single matrix is of what follows in a prompt[P]; a strange one is not answered."""
    x = normalize(params["embedding"][prompt])
    best, _ = jax.lax.top_k(x @ params["embedding"].T, 2)
    return jnp.mean(best[:, 0] - best[:, 1])


def main():
    rng = np.random.default_rng(0)
    trained = jax.jit(init)(jax.random.key(0))
    params, cache = convert(trained), init_cache()
    for length in (97, 131, 212, 330, 415, 508):
        screen(params, rng.integers(0, VOCABULARY, length, np.int32))
    tokens = jax.device_put(rng.integers(0, VOCABULARY, (TEXTS, DRAFTED), np.int32))
    for number in range(STEPS):
        tokens, cache = step(params, cache, tokens, np.int32(number * DRAFTED))
        ended = (np.asarray(tokens) == END).any(axis=-1)
        if ended.all():
            break
    print(f"{ended.sum()} of {TEXTS} texts ended")


if __name__ == "__main__":
    main()
