"""Where a figure comes from. Every figure that people see says so."""

from __future__ import annotations

from enum import StrEnum


class Basis(StrEnum):
    """How a figure was obtained."""

    COMPILER = "compiler"  # the TPU compiler said so
    SIMULATED = "simulated"  # counted on the virtual slice
    MODELLED = "modelled"  # computed by a model, with an error
    MEASURED = "measured"  # measured on this machine or on hardware
    JAX = "jax"  # JAX said so
