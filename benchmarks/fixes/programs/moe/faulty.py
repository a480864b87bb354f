"""Trains a mixture of experts: every token goes to its two best of 8 experts, as far as they have room.

Tokens and experts are split over the chips. Shapes: G groups of S tokens, D model, F feed-forward, E experts,
C places of an expert in each group, L layers.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
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
    """The places of tokens x[G, S, D] in experts, and their shares there: [G, S, E, C] each."""
    shares, chosen = jax.lax.top_k(jax.nn.softmax((x @ router).astype(jnp.float32)), CHOICES)
    wanted = jax.nn.one_hot(chosen, EXPERTS).sum(axis=2)  # [G, S, E]
    place = jnp.cumsum(wanted, axis=1) * wanted - 1  # -1: not wanted; from C on: no room
    dispatch = jax.nn.one_hot(place.astype(jnp.int32), CAPACITY)
    weight = (jax.nn.one_hot(chosen, EXPERTS) * shares[..., None]).sum(axis=2)
    return dispatch, dispatch * weight[..., None]


def layer(x, weights):
    dispatch, combine = route(x, weights["router"].astype(x.dtype))
    sent = jnp.einsum("gsec,gsd->egcd", dispatch.astype(x.dtype), x)
    sent = jax.lax.with_sharding_constraint(sent, on_mesh("expert"))
    hidden = jax.nn.relu(jnp.einsum("egcd,edf->egcf", sent, weights["up"].astype(x.dtype)))
    out = jnp.einsum("egcf,efd->egcd", hidden, weights["down"].astype(x.dtype))
    out = jax.lax.with_sharding_constraint(out, on_mesh("expert"))
    x = x + jnp.einsum("gsec,egcd->gsd", combine.astype(x.dtype), out)
    return jax.lax.with_sharding_constraint(x, on_mesh("expert")), None


def loss_of(params, x, labels):
    """Mean cross-entropy of the tokens' classes: x[G, S, D], labels[G, S] -> f32[]."""
    layers = {k: v for k, v in params.items() if k != "head"}
    x, _ = jax.lax.scan(layer, x, layers)
    logits = x @ params["head"].astype(x.dtype)
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1) - picked)


@partial(jax.jit, out_shardings=on_mesh())
def step(params, moments, x, labels):
    """One step of Adam; `moments` are the first and the second."""
    loss, grads = jax.value_and_grad(loss_of)(params, x, labels)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
    second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, moments[1], grads)
    params = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, first, second)
    return params, (first, second), loss


def array(shape, dtype, *spec):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=on_mesh(*spec))


abstract = {k: array(a.shape, a.dtype) for k, a in jax.eval_shape(init, jax.random.key(0)).items()}
args = (
    abstract,
    (abstract, abstract),
    array((GROUPS, GROUP, WIDTH), jnp.bfloat16, "expert"),
    array((GROUPS, GROUP), jnp.int32, "expert"),
)
