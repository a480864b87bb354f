"""What a TPU is: generations with figures and sources, slices and every dialect of their names.

    >>> from vtpu.chips import parse_slice
    >>> parse_slice("v5p-128").describe()
    'v5p-128 = v5p:4x4x4, 64 chips, 16 hosts'

`generations` holds the data, `figures` a number with its sources, `shapes` the rules of the torus
and the hosts, `slices` the value, `dialects` the words people use, `names` the parser.
Nothing here imports jax or numpy, and nothing asks libtpu.
"""

from __future__ import annotations

from vtpu.chips.errors import UnknownSlice
from vtpu.chips.figures import Claim, Figure, Source
from vtpu.chips.generations import (
    Bounds,
    Chip,
    Generation,
    Links,
    Machine,
    Peak,
    Pod,
    Shape,
    Topology,
    Torus,
    all_generations,
    generation_named,
)
from vtpu.chips.names import nearest, parse_generation, parse_slice
from vtpu.chips.shapes import Wrap, format_topology, machines_for
from vtpu.chips.slices import Slice, all_slices, slice_of, slices_of

__all__ = [
    "Bounds",
    "Chip",
    "Claim",
    "Figure",
    "Generation",
    "Links",
    "Machine",
    "Peak",
    "Pod",
    "Shape",
    "Slice",
    "Source",
    "Topology",
    "Torus",
    "UnknownSlice",
    "Wrap",
    "all_generations",
    "all_slices",
    "format_topology",
    "generation_named",
    "machines_for",
    "nearest",
    "parse_generation",
    "parse_slice",
    "slice_of",
    "slices_of",
]
