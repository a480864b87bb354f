"""Keeps what Pallas kernels are made from, at the moment when JAX makes TPU code of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from vtpu.device.loading import when_loaded
from vtpu.values.kernels import Kernel, keep_kernel

_LOWERING = "jax._src.pallas.mosaic.pallas_call_registration"
_RULE = "pallas_call_tpu_lowering_rule"


def keep_kernels() -> None:
    """Begins to keep kernels. JAX's own result is unchanged."""
    when_loaded(_LOWERING, _replace_rule)


def _replace_rule(module: ModuleType) -> None:
    original = getattr(module, _RULE, None)
    if original is not None and not hasattr(original, "__wrapped__"):
        setattr(module, _RULE, _keeping(original))


def _keeping(rule: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(rule)
    def lower(context: Any, *nodes: Any, **parameters: Any) -> Any:
        results = rule(context, *nodes, **parameters)
        if (config := _config_behind(results)) is not None:
            parameters.pop("interpret", None)
            axes = context.module_context.axis_context
            keep_kernel(config, Kernel(parameters, tuple(context.avals_in), axes))
        return results

    return lower


def _config_behind(results: Any) -> str | None:
    """The configuration of the custom call that the first of `results` comes from."""
    for value in results[:1]:
        owner = getattr(value, "owner", None)
        while owner is not None and getattr(owner, "name", "") != "stablehlo.custom_call":
            operands = list(getattr(owner, "operands", ()))
            owner = operands[0].owner if operands else None
        if owner is not None:
            attribute = owner.attributes["backend_config"]
            return str(getattr(attribute, "value", attribute))
    return None
