"""vtpu: a virtual TPU. An unmodified JAX program runs on any TPU slice, on a CPU box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vtpu.checks.batches import fit_batch
    from vtpu.checks.check import check
    from vtpu.plugin import attach

__all__ = ["attach", "check", "fit_batch"]


def __getattr__(name: str) -> Any:
    if name == "attach":
        from vtpu.plugin import attach

        return attach
    if name == "check":
        from vtpu.checks.check import check

        return check
    if name == "fit_batch":
        from vtpu.checks.batches import fit_batch

        return fit_batch
    raise AttributeError(f"module 'vtpu' has no attribute {name!r}")
