"""The training step of a model and a run, with the arguments to compile it for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.models.decoder import logits_of
from benchmarks.models.flags import parse_flags
from benchmarks.models.layers import Context
from benchmarks.models.loss import cross_entropy
from benchmarks.models.model import Model
from benchmarks.models.optimizer import clip, global_norm, update
from benchmarks.models.run import Run
from benchmarks.models.sharding import Layout, make_mesh
from benchmarks.models.together import check_together
from benchmarks.models.weights import Weight, all_weights, initial_value, is_weight
from jax.sharding import Mesh, NamedSharding, PartitionSpec

INPUTS = ("inputs", "positions", "segments", "targets", "target_segments")
_SMALL = 1e-8


@dataclass(frozen=True, slots=True)
class Program:
    """A training step: `step(state, batch)` gives the next state and metrics.

    `state` and `batch` are abstract, with shardings on the mesh. `options` are compile options.
    """

    context: Context
    state: Any
    batch: Any
    options: Mapping[str, Any]

    def step(self, state: Any, batch: Any) -> tuple[Any, dict[str, jax.Array]]:
        """One optimizer step."""
        (loss, _), raw = jax.value_and_grad(self._loss, has_aux=True)(state["params"], batch)
        gradients = clip(raw)
        after = update(state, gradients)
        metrics = {
            "loss": loss,
            "gradient_norm": global_norm(gradients),
            "raw_gradient_norm": global_norm(raw),
            "parameter_norm": global_norm(after["params"]),
        }
        return after, metrics

    def _loss(self, params: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
        c = self.context
        logits, balance = logits_of(c, params, batch)
        targets = jax.nn.one_hot(batch["targets"], c.model.vocab)
        entropy = c.layout.constrain(cross_entropy(logits, targets), "batch", "act_length")
        counted = batch["target_segments"] != 0
        total = jnp.sum(entropy * counted)
        return total / (jnp.sum(counted) + _SMALL) + balance, total

    def jitted(self, options: Mapping[str, Any] | None = None) -> Any:
        """The step for JAX, its state donated. `options` instead of the run's own compile options."""

        def train_step(state: Any, batch: Any) -> Any:
            return self.step(state, batch)

        placed = jax.tree.map(lambda leaf: leaf.sharding, self.state)
        chosen = self.options if options is None else options
        return jax.jit(
            train_step,
            donate_argnums=0,
            out_shardings=(placed, None),
            compiler_options=dict(chosen) or None,
        )

    def initial(self, seed: int = 0) -> Any:
        """A state to start from, on the mesh's devices."""
        c = self.context
        weights = _weights(c.model, c.run)
        leaves, structure = jax.tree.flatten(weights, is_leaf=is_weight)
        keys = jax.random.split(jax.random.key(seed), len(leaves))
        values = [
            initial_value(weight, key, c.model.weight_dtype)
            for weight, key in zip(leaves, keys, strict=True)
        ]
        moments = [jnp.zeros(value.shape, c.model.moments_dtype) for value in values]
        state = {
            "params": structure.unflatten(values),
            "first": structure.unflatten(moments),
            "second": structure.unflatten(moments),
            "step": jnp.zeros((), jnp.int32),
        }
        return jax.tree.map(
            lambda v, a: jax.device_put(v, a.sharding, may_alias=False), state, self.state
        )


def build(model: Model, run: Run, devices: Sequence[Any], mesh: Mesh | None = None) -> Program:
    """The training step of `model` for `devices`, those of the run's slice.

    Raises:
        ValueError: model, run and devices do not go together; says why.
    """
    layout = Layout(mesh or make_mesh(run, devices))
    context = Context(model, run, layout)
    check_together(context)
    return Program(
        context, _abstract_state(context), _abstract_batch(context), parse_flags(run.flags)
    )


def _weights(model: Model, run: Run) -> Any:
    return all_weights(model, scan_axis=run.scan_axis if run.scan_layers else None)


def _abstract_state(c: Context) -> Any:
    weights = _weights(c.model, c.run)

    def arrays(dtype: str) -> Any:
        def array(weight: Weight) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(
                weight.shape, dtype, sharding=c.layout.sharding(*weight.axes)
            )

        return jax.tree.map(array, weights, is_leaf=is_weight)

    whole = NamedSharding(c.layout.mesh, PartitionSpec())
    return {
        "params": arrays(c.model.weight_dtype),
        "first": arrays(c.model.moments_dtype),
        "second": arrays(c.model.moments_dtype),
        "step": jax.ShapeDtypeStruct((), jnp.int32, sharding=whole),
    }


def _abstract_batch(c: Context) -> Any:
    size = int(c.run.per_device_batch * c.layout.mesh.size)
    sharding = c.layout.sharding("batch", "act_norm_length")
    array = jax.ShapeDtypeStruct((size, c.run.sequence), jnp.int32, sharding=sharding)
    return dict.fromkeys(INPUTS, array)
