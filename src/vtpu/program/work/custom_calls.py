"""What custom calls do: nothing, what a kernel's author says, or nobody knows.

A Pallas kernel has `pallas_call(cost_estimate=...)` in its back end's attributes, where its author gave
one: `{"custom_call_config": {"cost_estimate": {"flops", "transcendentals", "bytes_accessed"}}}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

#: Names for memory or for a promise to the compiler, as libtpu 0.0.52 writes them: no step of the chip.
_NOTHING = {
    "AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast", "CreateBuffer", "LayoutConstraint",
    "SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding", "SliceBitcast",
    "annotate_device_placement",
}  # fmt: skip
#: The two halves of 64-bit numbers, which are kept apart, taken from an array and put together.
_MOVES = {"X64Combine", "X64SplitHigh", "X64SplitLow"}
KERNEL = "tpu_custom_call"


def does_nothing(target: str) -> bool:
    """Whether a custom call only names memory."""
    return target in _NOTHING


def only_moves(target: str) -> bool:
    """Whether a custom call writes its results without computing anything."""
    return target in _MOVES


def author_estimate(attributes: bytes) -> Mapping[str, int] | None:
    """`flops`, `transcendentals` and `bytes_accessed` that a kernel's author gave; None for none."""
    estimate = kernel_config(attributes).get("cost_estimate")
    if not isinstance(estimate, dict):
        return None
    fields = cast("dict[str, Any]", estimate)
    return {
        name: int(fields.get(name) or 0) for name in ("flops", "transcendentals", "bytes_accessed")
    }


def kernel_config(attributes: bytes) -> dict[str, Any]:
    """The `custom_call_config` in a back end's attributes; empty where there is none."""
    if b"custom_call_config" not in attributes:
        return {}
    try:
        found = json.loads(attributes)
    except ValueError:  # cut or foreign: then nothing is known of the kernel
        return {}
    config = found.get("custom_call_config") if isinstance(found, dict) else None
    return cast("dict[str, Any]", config) if isinstance(config, dict) else {}
