"""Trains a language model on one text of 32,768 tokens, split over the eight chips of a slice.

Each chip has a part of the queries and sees all keys; all heads share one key and value. Shapes: T tokens,
D model, F feed-forward, H heads, C head size, V vocabulary, L layers.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HIDDEN, HEADS, HEAD, VOCABULARY = 8, 512, 2048, 4, 128, 8192
LENGTH, QUERIES = 32768, 256  # queries of a chip at a time

mesh = Mesh(np.array(jax.devices()), ("text",))


def on_mesh(*spec):
    return NamedSharding(mesh, P(*spec))


def init(key):
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


def whole(array):
    """What is split over the chips, gathered."""
    return jax.lax.with_sharding_constraint(array, on_mesh())


def attention(q, key, value):
    """Causal attention: q[T, H * C] split over the chips, key[T, C], value[T, C] -> [T, H * C]."""
    key, value = whole(key), whole(value)

    @jax.checkpoint
    def some(q, places):  # q[chips, queries, H, C]
        scores = jnp.einsum("pqhc,kc->phqk", q, key) * HEAD**-0.5
        causal = places[:, None, :, None] >= jnp.arange(LENGTH)
        shares = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
        return jnp.einsum("phqk,kc->pqhc", shares, value)

    blocks = (mesh.size, -1, QUERIES)  # the first dimension is split over the chips, the second is the loop's
    q = q.reshape(*blocks, HEADS, HEAD).swapaxes(0, 1)
    places = jnp.arange(LENGTH).reshape(blocks).swapaxes(0, 1)
    q, places = jax.lax.with_sharding_constraint((q, places), on_mesh(None, "text"))
    out = jax.lax.map(lambda block: some(*block), (q, places))
    return out.swapaxes(0, 1).reshape(LENGTH, HEADS * HEAD)


@jax.checkpoint
def layer(x, weights):
    """Attention and feed-forward side by side: x[T, D] -> x[T, D]."""
    weights = jax.tree.map(lambda w: whole(w.astype(x.dtype)), weights)
    inside = normalize(x) @ weights["inside"]
    q, key, value, hidden = jnp.split(inside, np.cumsum([HEADS * HEAD, HEAD, HEAD]), axis=-1)
    both = jnp.concatenate((attention(q, key, value), jax.nn.gelu(hidden)), axis=-1)
    return x + both @ weights["outside"], None


def loss_of(params, tokens, targets):
    """Mean cross-entropy of the next token: tokens[T], targets[T] -> f32[]."""
    table = whole(params["embedding"].astype(jnp.bfloat16))
    x, _ = jax.lax.scan(layer, table[tokens], {k: params[k] for k in ("inside", "outside")})
    logits = normalize(x) @ table.T
    picked = jnp.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1) - picked)


split = {"embedding": ("text",), "inside": (None, None, "text"), "outside": (None, "text")}
shardings = {name: on_mesh(*spec) for name, spec in split.items()}


@partial(jax.jit, donate_argnames=("params", "momentum"), out_shardings=(shardings, shardings, None))
def step(params, momentum, tokens, targets):
    loss, grads = jax.value_and_grad(loss_of)(params, tokens, targets)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 1e-2 * m, params, momentum), momentum, loss


abstract = {
    name: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=shardings[name])
    for name, a in jax.eval_shape(init, jax.random.key(0)).items()
}
text = jax.ShapeDtypeStruct((LENGTH,), jnp.int32, sharding=on_mesh("text"))
args = (abstract, abstract, text, text)
