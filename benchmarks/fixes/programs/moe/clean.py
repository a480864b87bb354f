"""Trains a mixture of experts: every token goes to its two best of 8 experts, as far as they have room.

Tokens and experts are split over the chips. Shapes: G groups of S tokens, D model, F feed-forward, E experts,
C places of an expert in each group, L layers.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH, HIDDEN, EXPERTS, CHOICES, CLASSES = 2, 512, 18432, 8, 2, 1024
GROUPS, GROUP = 64, 2048
CAPACITY = CHOICES * GROUP // EXPERTS

mesh = Mesh(np.array(jax.devices()), ("expert",))


def on_mesh(*spec):
    return NamedSharding(mesh, P(*spec))


def init(key):
    keys = jax.random.split(key, 4)
    shapes = {
        "router": (LAYERS, WIDTH, EXPERTS),
        "up": (LAYERS, EXPERTS, WIDTH, HIDDEN),
        "down": (LAYERS, EXPERTS, HIDDEN, WIDTH),
        "head": (WIDTH, CLASSES),
    }
    return {
        name: jax.random.normal(k, shape) * shape[-2] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def route(x, router):
    """For tokens x[S, D] the place of each choice, expert * C + place there, or E * C without room, and its
    share: [S, 2] each."""
    shares, chosen = jax.lax.top_k(jax.nn.softmax((x @ router).astype(jnp.float32)), CHOICES)
    wanted = (chosen[..., None] == jnp.arange(EXPERTS)).any(axis=1)  # [S, E]
    place = jnp.take_along_axis(jnp.cumsum(wanted, axis=0, dtype=jnp.int32) - 1, chosen, axis=1)
    return jnp.where(place < CAPACITY, chosen * CAPACITY + place, EXPERTS * CAPACITY), shares


def dispatch(x, places):
    """Tokens x[S, D] at their places: [E, C, D]."""
    tokens = jnp.broadcast_to(jnp.arange(GROUP)[:, None], places.shape)
    token_at = jnp.full(EXPERTS * CAPACITY, GROUP).at[places].set(tokens, mode="drop")
    return jnp.take(x, token_at, axis=0, mode="fill", fill_value=0).reshape(EXPERTS, CAPACITY, -1)


def combine(out, places, shares):
    """What experts made of tokens, out[E, C, D], weighted: [S, D]."""
    parts = jnp.take(out.reshape(EXPERTS * CAPACITY, -1), places, axis=0, mode="fill", fill_value=0)
    return (parts * shares[..., None].astype(out.dtype)).sum(axis=1)


def exchange(a, spec, new_spec):
    """An array that is split in one way, split in another; kept, so that nothing is sent again."""
    a = jax.lax.with_sharding_constraint(a, on_mesh(*spec))
    return checkpoint_name(jax.lax.with_sharding_constraint(a, on_mesh(*new_spec)), "exchanged")


BY_GROUP, BY_EXPERT = ("expert",), (None, "expert")


@partial(jax.checkpoint, policy=jax.checkpoint_policies.save_only_these_names("exchanged"))
def layer(x, weights):
    places, shares = jax.vmap(route, (0, None))(x, weights["router"].astype(x.dtype))
    sent = exchange(jax.vmap(dispatch)(x, places), BY_GROUP, BY_EXPERT)
    hidden = jax.nn.relu(jnp.einsum("gecd,edf->gecf", sent, weights["up"].astype(x.dtype)))
    hidden = jax.lax.with_sharding_constraint(hidden, on_mesh(*BY_EXPERT))
    out = jnp.einsum("gecf,efd->gecd", hidden, weights["down"].astype(x.dtype))
    return x + jax.vmap(combine)(exchange(out, BY_EXPERT, BY_GROUP), places, shares), None


def loss_of(params, x, labels):
    """Mean cross-entropy of the tokens' classes: x[G, S, D], labels[G, S] -> f32[]."""
    layers = {k: v for k, v in params.items() if k != "head"}
    x, _ = jax.lax.scan(layer, x, layers)
    logits = x @ params["head"].astype(x.dtype)
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1) - picked)


@partial(jax.jit, donate_argnames=("params", "moments"))
def step(params, moments, x, labels):
    """One step of Adam; `moments` are the first and the second."""
    loss, grads = jax.value_and_grad(loss_of)(params, x, labels)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
    second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, moments[1], grads)
    params = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return params, (first, second), loss


def array(shape, dtype, *spec):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=on_mesh(*spec))


split = {"up": (None, "expert"), "down": (None, "expert")}
abstract = {
    k: array(a.shape, a.dtype, *split.get(k, ())) for k, a in jax.eval_shape(init, jax.random.key(0)).items()
}
args = (
    abstract,
    (abstract, abstract),
    array((GROUPS, GROUP, WIDTH), jnp.bfloat16, "expert"),
    array((GROUPS, GROUP), jnp.int32, "expert"),
)
