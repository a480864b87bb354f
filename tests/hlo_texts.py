"""Modules as HLO text, and what XLA's own cost analysis says of them."""

from __future__ import annotations

import functools
from typing import Any

from vtpu.program.modules import Module
from vtpu.reading.hlo_text import read_hlo_text


def module_of(*lines: str, before: str = "") -> Module:
    """The module of one entry computation, given line by line; `before` are other computations."""
    return read_hlo_text(text_of(*lines, before=before))


def text_of(*lines: str, before: str = "") -> str:
    """Its text."""
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule m, is_scheduled=true\n\n{before}\n\nENTRY e {{\n{body}\n}}\n"


def xla_cost(text: str) -> dict[str, float]:
    """XLA's `HloCostAnalysis` of a module, by the names of its properties."""
    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue], it has no stub
    from jaxlib._hlo import hlo_module_from_text

    return dict(_jax.hlo_module_cost_analysis(_cpu(), hlo_module_from_text(text)))


@functools.cache
def _cpu() -> Any:
    from jax._src.lib import xla_client  # pyright: ignore[reportPrivateImportUsage]

    return xla_client.make_cpu_client()
