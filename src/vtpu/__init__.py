"""vtpu: a virtual TPU. An unmodified JAX program runs on any TPU slice, on a CPU box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vtpu.checks.check import check
    from vtpu.plugin import attach

__all__ = ["attach", "check"]


def __getattr__(name: str) -> Any:
    if name == "attach":
        from vtpu.plugin import attach

        return attach
    if name == "check":
        from vtpu.checks.check import check

        return check
    raise AttributeError(f"module 'vtpu' has no attribute {name!r}")
