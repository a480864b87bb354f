"""Trains a deep residual network in eight stages, one on each chip, through which small batches are passed.

Shapes: S stages, M small batches of B rows, D model, L layers of a stage.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LAYERS, WIDTH = 8, 2048
SMALL_BATCHES, ROWS = 24, 2048

mesh = Mesh(np.array(jax.devices()), ("stage",))
STAGES = mesh.size


def on_mesh(*spec):
    return NamedSharding(mesh, P(*spec))


def init(key):
    return {"layers": jax.random.normal(key, (STAGES, LAYERS, WIDTH, WIDTH)) * WIDTH**-0.5}


@jax.checkpoint
def stage(x, weights):
    """The layers of a stage: x[B, D] -> x[B, D]."""

    @jax.checkpoint
    def layer(x, weight):
        return x + jax.nn.gelu(x @ weight.astype(x.dtype)), None

    return jax.lax.scan(layer, x, weights["layers"][0])[0]


@partial(jax.shard_map, mesh=mesh, in_specs=(P("stage"), P()), out_specs=P("stage"))
def passed_through(params, x):
    """All small batches x[M, B, D] through all stages; what counts is the last stage's."""
    number = jax.lax.axis_index("stage")
    onward = [(i, i + 1) for i in range(STAGES - 1)]

    def tick(arrived, time):
        fresh = jax.lax.dynamic_index_in_dim(x, jnp.minimum(time, SMALL_BATCHES - 1), keepdims=False)
        out = stage(jnp.where(number == 0, fresh, arrived), params)
        return jax.lax.ppermute(out, "stage", onward), out

    nothing = jax.lax.pcast(jnp.zeros_like(x[0]), "stage", to="varying")
    _, outs = jax.lax.scan(tick, nothing, jnp.arange(SMALL_BATCHES + STAGES - 1))
    return outs[None, STAGES - 1 :]


def loss_of(params, x, targets):
    """Mean squared error: x[M, B, D], targets[M, B] -> f32[]."""
    predicted = passed_through(params, x)[-1].astype(jnp.float32).mean(axis=-1)
    return jnp.mean(jnp.square(predicted - targets))


@partial(jax.jit, donate_argnames=("params", "momentum"))
def step(params, momentum, x, targets):
    loss, grads = jax.value_and_grad(loss_of)(params, x, targets)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 1e-3 * m, params, momentum), momentum, loss


def array(shape, dtype, *spec):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=on_mesh(*spec))


abstract = {
    name: array(a.shape, a.dtype, "stage") for name, a in jax.eval_shape(init, jax.random.key(0)).items()
}
x = array((SMALL_BATCHES, ROWS, WIDTH), jnp.bfloat16)
args = (abstract, abstract, x, array((SMALL_BATCHES, ROWS), jnp.float32))
