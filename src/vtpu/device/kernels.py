"""Keeps what Pallas kernels are made from, at the moment when JAX makes TPU code of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from vtpu.device.loading import when_loaded
from vtpu.values.kernels import Kernel, keep_kernel

_LOWERING = "jax._src.pallas.mosaic.pallas_call_registration"
_RULES = {"pallas_call_tpu_lowering_rule": "pallas_call", "mpmd_map_tpu_lowering_rule": "mpmd_map"}
_NOT_OF_THE_PRIMITIVE = ("interpret", "num_scratch")


def keep_kernels() -> None:
    """Begins to keep kernels. JAX's own result is unchanged."""
    when_loaded(_LOWERING, _replace_rules)


def _replace_rules(module: ModuleType) -> None:
    from jax._src.pallas import core

    registered: dict[Any, Any] = getattr(core, "_backend_lowering_rules", {})
    for name, primitive in _RULES.items():
        original = getattr(module, name, None)
        if original is None or hasattr(original, "__wrapped__"):
            continue
        setattr(module, name, _keeping(original, primitive))
        for kind, (rule, platform) in list(registered.items()):
            if rule is original:
                registered[kind] = (getattr(module, name), platform)


def _keeping(rule: Callable[..., Any], primitive: str) -> Callable[..., Any]:
    @wraps(rule)
    def lower(context: Any, *nodes: Any, **parameters: Any) -> Any:
        results = rule(context, *nodes, **parameters)
        if (config := _config_behind(results)) is not None:
            kept = {k: v for k, v in parameters.items() if k not in _NOT_OF_THE_PRIMITIVE}
            axes = context.module_context.axis_context
            keep_kernel(config, Kernel(primitive, kept, tuple(context.avals_in), axes))
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
