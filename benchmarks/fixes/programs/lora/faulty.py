"""Fine-tunes a frozen decoder language model through adapters of low rank, on one chip.

Shapes: B batch, T sequence, D model, F feed-forward, H heads, R rank, V vocabulary, L layers.
"""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, HIDDEN, HEADS, RANK, VOCABULARY = 40, 1024, 4096, 8, 64, 16384
BATCH, LENGTH, STEPS, EVERY = 16, 256, 12, 4


def init(key):
    """Weights of the model in bfloat16, which stay, and adapters in float32, which are trained."""
    keys = jax.random.split(key, 5)
    base = {
        "embedding": (VOCABULARY, WIDTH),
        "inside": (LAYERS, WIDTH, 3 * WIDTH + HIDDEN),
        "outside": (LAYERS, WIDTH + HIDDEN, WIDTH),
    }
    base = {
        name: jax.random.normal(k, shape, jnp.bfloat16) * shape[-2] ** -0.5
        for k, (name, shape) in zip(keys, base.items())
    }
    return {
        "base": base,
        "down": jax.random.normal(keys[3], (LAYERS, WIDTH, RANK)) * WIDTH**-0.5,
        "up": jnp.zeros((LAYERS, RANK, 3 * WIDTH + HIDDEN)),
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


@jax.checkpoint
def layer(x, weights):
    """Attention and feed-forward side by side, with the adapters: x[B, T, D] -> x[B, T, D]."""
    here = normalize(x)
    adapted = (here @ weights["down"].astype(x.dtype)) @ weights["up"].astype(x.dtype)
    inside = here @ weights["inside"] + adapted
    q, k, v, hidden = jnp.split(inside, (WIDTH, 2 * WIDTH, 3 * WIDTH), axis=-1)
    both = jnp.concatenate((attention(q, k, v), jax.nn.gelu(hidden)), axis=-1)
    return x + both @ weights["outside"], None


def loss_of(params, tokens):
    """Mean cross-entropy of the next token: tokens[B, T + 1] -> f32[]."""
    base = params["base"]
    x = base["embedding"][tokens[:, :-1]]
    weights = {"inside": base["inside"], "outside": base["outside"], "down": params["down"], "up": params["up"]}
    x, _ = jax.lax.scan(layer, x, weights)
    logits = normalize(x[:, -64:]) @ base["embedding"].T  # the answer is the end of the text
    picked = jnp.take_along_axis(logits, tokens[:, -64:, None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1) - picked)


@jax.jit
def step(params, moments, tokens):
    """One step of Adam, from which the weights of the model are left out."""
    loss, grads = jax.value_and_grad(loss_of)(params, tokens)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
    second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * jnp.square(g), moments[1], grads)
    new = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return {**new, "base": params["base"]}, (first, second), loss


def in_float32(tree):
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, jnp.float32), tree)


abstract = jax.eval_shape(init, jax.random.key(0))
moments = in_float32(abstract)
args = (abstract, (moments, moments), jax.ShapeDtypeStruct((BATCH, LENGTH + 1), jnp.int32))


@jax.jit
def init_state(key):
    zeros = jax.tree.map(lambda m: jnp.zeros(m.shape, m.dtype), (moments, moments))
    return init(key), zeros


def save(params):
    """Writes what is trained."""
    with tempfile.NamedTemporaryFile(suffix=".npz") as file:
        np.savez(file, down=np.asarray(params["down"]), up=np.asarray(params["up"]))


def main():
    rng = np.random.default_rng(0)
    params, moments = init_state(jax.random.key(0))
    losses = []
    for number in range(STEPS):
        tokens = jax.device_put(rng.integers(0, VOCABULARY, (BATCH, LENGTH + 1), np.int32))
        params, moments, loss = step(params, moments, tokens)
        losses.append(loss)
        if number % EVERY == EVERY - 1:
            losses.append(jax.jit(lambda p, t: loss_of(p, t))(params, tokens))
        if number % EVERY == 1:
            save(params)
    print("losses", *(f"{loss:.3f}" for loss in jax.device_get(losses)))


if __name__ == "__main__":
    main()
