"""Settings that the program put into its environment when they had been read already.

libtpu and XLA read their flags when JAX makes its backend, JAX its own variables when it is imported.
What comes later has no effect, and nobody says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vtpu.compiler.service import FLAG_VARIABLES

_TRUE = {"y", "yes", "t", "true", "on", "1"}  # as jax/_src/config.py reads them
_JAX = "JAX_"


def late_settings(when_attached: Mapping[str, str]) -> dict[str, str]:
    """The variables that came too late, with their values. `when_attached`: the environment at that time."""
    now = dict(os.environ)
    flags = {
        n: now.get(n, "") for n in FLAG_VARIABLES if now.get(n, "") != when_attached.get(n, "")
    }
    began = _environment_at_start()
    own = {n: v for n, v in now.items() if n.startswith(_JAX) and began.get(n) != v}
    return flags | {n: v for n, v in own.items() if not _is_in_effect(n, v)}


def _environment_at_start() -> dict[str, str]:
    """What the process was started with, before it changed anything."""
    try:
        data = Path("/proc/self/environ").read_bytes()
    except OSError:
        return dict(os.environ)
    pairs = (os.fsdecode(entry).partition("=") for entry in data.split(b"\0") if entry)
    return {name: value for name, _, value in pairs}


def _is_in_effect(name: str, text: str) -> bool:
    """Whether JAX's option of a variable has its value; also where JAX has no such option."""
    from jax import config

    values: dict[str, Any] = config.values
    if name.lower() not in values:
        return True
    value = values[name.lower()]
    if isinstance(value, bool):
        return (text.lower() in _TRUE) == value
    return str("" if value is None else value) == text
