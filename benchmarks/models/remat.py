"""Which tensors of the forward pass are kept for the backward pass: MaxText's policies by name.

Everything that a policy does not name is computed again. Names are those of MaxText's `checkpoint_name`s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from benchmarks.models.run import Run
from jax.ad_checkpoint import checkpoint_name

QKV = ("query_proj", "key_proj", "value_proj", "qkv_proj")
TENSORS = (
    "decoder_layer_input",
    *QKV,
    "context",
    "out_proj",
    "mlpwi",
    "mlpwi_0",
    "mlpwi_1",
    "mlpwo",
)
WAYS = ("save", "offload", "remat")
_ON_HOST = {"offload_src": "device", "offload_dst": "pinned_host"}

Policy = Callable[..., Any]


def name(value: jax.Array, tensor: str) -> jax.Array:
    """The value, which a policy may name `tensor`."""
    assert tensor in TENSORS, tensor
    return checkpoint_name(value, tensor)


def _save(*tensors: str) -> Policy:
    return jax.checkpoint_policies.save_only_these_names(*tensors)


def _with_context() -> Policy:
    dots = jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims
    return jax.checkpoint_policies.save_from_both_policies(dots, _save("context"))


POLICIES: dict[str, Callable[[], Policy | None]] = {
    "full": lambda: None,
    "minimal": lambda: jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims,
    "minimal_flash": _with_context,
    "minimal_offloaded": lambda: jax.checkpoint_policies.offload_dot_with_no_batch_dims(**_ON_HOST),
    "proj": lambda: _save(*QKV),
    "save_qkv_proj": lambda: _save(*QKV),
    "save_out_proj": lambda: _save("out_proj"),
    "save_dot_except_mlp": lambda: _save(*QKV, "out_proj"),
    "save_dot_except_mlpwi": lambda: _save(*QKV, "out_proj", "mlpwo"),
    "save_dot_with_context_except_mlp": lambda: _save(*QKV, "context", "out_proj"),
    "qkv_proj_offloaded": lambda: _offload((), QKV[:3]),
}
NAMES = (*POLICIES, "custom", "none")


def rematerialize(run: Run, layer: Callable[..., Any]) -> Callable[..., Any]:
    """A layer that keeps for its backward pass what the run's policy says."""
    if run.remat == "none":
        return layer
    policy = _custom(run) if run.remat == "custom" else POLICIES[run.remat]()
    return jax.checkpoint(layer, policy=policy, prevent_cse=not run.scan_layers)


def _custom(run: Run) -> Policy:
    tensors = {"decoder_layer_input": "save", **run.tensors}
    saved = [tensor for tensor, way in tensors.items() if way == "save"]
    return _offload(saved, [tensor for tensor, way in tensors.items() if way == "offload"])


def _offload(saved: Any, offloaded: Any) -> Policy:
    return jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=list(saved),
        names_which_can_be_offloaded=list(offloaded),
        **_ON_HOST,
    )
