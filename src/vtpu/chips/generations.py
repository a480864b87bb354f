"""The TPU generations as values, read once from `generations/*.toml`.

A file holds what was published or printed about one generation: the chip, its links, the torus, the
pod, the host machines and the slices that can be had, every figure with its sources (`figures`).
Figures are per chip unless the name says otherwise; bytes are bytes, rates are per second.

This module knows the data, not its consequences: which shapes are legal is in `shapes`, what a
slice is in `slices`. It holds no prices and no power.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from vtpu.chips.figures import Figure, Source, figure_of

Topology = tuple[int, ...]
"""Chips along each axis of the torus: two numbers on a 2D torus, three on a 3D one."""

Bounds = tuple[int, int, int]
"""Chips along x, y and z; z is 1 on a 2D torus."""

GENERATION_NAMES = ("v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x")
"""Canonical names, oldest first; each is also the name of a file."""

_FILES = Path(__file__).with_name("generations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The peak rate of one chip for one element type.

    FLOP per second, a multiply-add counted as two; operations per second for integer types.
    """

    element_type: str
    flops_per_s: Figure[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One chip and what XLA and JAX see of it: a device, of which v2, v3 and tpu7x have two a chip.

    `hbm_bytes` is what data sheets count. `hbm_limit_gib_per_device` is what the compiler grants,
    in GiB as it prints them, with two decimals; at run time libtpu's exact answer decides.
    """

    device_kind: Figure[str]
    xla_devices_per_chip: Figure[int]
    tensorcores_per_chip: Figure[int]
    hbm_bytes: Figure[int]
    hbm_limit_gib_per_device: Figure[float]
    hbm_bandwidth_bytes_per_s: Figure[int]
    mxus_per_core: Figure[int]
    mxu_edge: Figure[int]
    vmem_bytes_per_core: Figure[int]
    smem_bytes_per_core: Figure[int]
    cmem_bytes: Figure[int]
    clock_hz: Figure[int]
    peaks: tuple[Peak, ...]
    sparsecores: Figure[int] | None = None
    vmem_largest_buffer_bytes: Figure[int] | None = None
    vmem_default_scoped_limit_bytes: Figure[int] | None = None
    xla_devices_per_chip_without_megacore: Figure[int] | None = None
    hbm_limit_gib_per_device_without_megacore: Figure[float] | None = None

    def peak_flops_per_s(self, element_type: str) -> Figure[int] | None:
        """The peak of one chip for `bf16`, `fp8`, `int8` or `int4`; None if no source gives one."""
        return next((p.flops_per_s for p in self.peaks if p.element_type == element_type), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What connects chips: ICI to neighbours, PCIe to the host, DCN between hosts and slices."""

    ici_ports: Figure[int] | None = None
    ici_one_way_bytes_per_s_per_link: Figure[int] | None = None
    ici_both_ways_bytes_per_s: Figure[int] | None = None
    ici_hop_s: Figure[float] | None = None
    host_link_bytes_per_s: Figure[int] | None = None
    dcn_bytes_per_s: Figure[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Torus:
    """The rules of the network: its axes, where they wrap around, and how long one may be.

    2D: an axis wraps when it is `wrap_axis_chips` long. 3D: every axis wraps when each is a
    multiple of `cube_edge_chips`, else none; whole cubes come in any ascending shape up to the pod.
    """

    axes: Figure[int]
    wrap_axis_chips: Figure[int] | None = None
    cube_edge_chips: Figure[int] | None = None
    max_axis_chips: Figure[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """How large one torus is, the largest job in it, and the most chips of several slices."""

    max_chips: Figure[int]
    max_topology: Figure[str] | None = None
    max_job_chips: Figure[int] | None = None
    max_job_topology: Figure[str] | None = None
    multislice_max_chips: Figure[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A host machine as Cloud rents it: its chips, processors and memory.

    `bounds` are its chips along x, y, z. `hosts` says whether such machines make slices of one
    host, of several, or of any number. `name` is the machine type, `gke_accelerator` GKE's label.
    """

    chips: int
    bounds: Bounds
    hosts: Literal["one", "several", "any"]
    name: str | None = None
    gke_accelerator: str | None = None
    vcpu: Figure[int] | None = None
    ram_bytes: Figure[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A slice that can be had by name, `v5p-128`: its size in the name's unit, its topology."""

    name: str
    size: int
    topology: Topology


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Generation:
    """One TPU generation.

    `names` are what people call it, the canonical name first; `libtpu_names` those that libtpu
    accepts before a topology. `counts` is the unit of the size in a slice's name, of which a chip
    has `counts_per_chip`. `chip_config` is libtpu's. `shapes` are the slices that can be had by
    name, by size; they were read in the source `slices_source`.
    """

    name: str
    title: str
    names: tuple[str, ...]
    libtpu_names: tuple[str, ...]
    counts: str
    counts_per_chip: int
    chip_config: str
    chip: Chip
    links: Links
    torus: Torus
    pod: Pod
    machines: tuple[Machine, ...]
    shapes: tuple[Shape, ...]
    slices_source: str
    sources: tuple[Source, ...]
    notes: tuple[str, ...]

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Generation({self.name!r})"

    @property
    def num_axes(self) -> int:
        """Axes of the torus: 2 or 3."""
        return self.torus.axes.value


def parse_topology(text: str) -> Topology:
    """The axes in a text such as `4x4` or `2x2x1`.

    Raises:
        ValueError: `text` is not numbers with `x` between them.
    """
    return tuple(int(axis) for axis in text.split("x"))


@cache
def generation_named(name: str) -> Generation:
    """The generation of this canonical name, one of `GENERATION_NAMES`.

    Raises:
        KeyError: there is no such generation.
    """
    if name not in GENERATION_NAMES:
        raise KeyError(name)
    return _generation(tomllib.loads((_FILES / f"{name}.toml").read_text(encoding="utf-8")))


def all_generations() -> tuple[Generation, ...]:
    """Every generation, oldest first."""
    return tuple(generation_named(name) for name in GENERATION_NAMES)


def _generation(table: dict[str, Any]) -> Generation:
    return Generation(
        name=table["name"],
        title=table["title"],
        names=tuple(table["names"]),
        libtpu_names=tuple(table["libtpu_names"]),
        counts=table["counts"],
        counts_per_chip=table["counts_per_chip"],
        chip_config=table["chip_config"],
        chip=_chip(table["chip"]),
        links=Links(**_figures(table.get("links", {}))),
        torus=Torus(**_figures(table["torus"])),
        pod=Pod(**_figures(table["pod"])),
        machines=tuple(_machine(row) for row in table["machines"]),
        shapes=tuple(_shape(name, text) for name, text in table["slices"].items()),
        slices_source=table["slices_source"],
        sources=tuple(Source(id=key, text=text) for key, text in table["sources"].items()),
        notes=tuple(table["notes"]),
    )


def _chip(table: dict[str, Any]) -> Chip:
    peaks = tuple(
        Peak(element_type=key, flops_per_s=figure_of(claims))
        for key, claims in table["peak_flops_per_s"].items()
    )
    rest = {key: claims for key, claims in table.items() if key != "peak_flops_per_s"}
    return Chip(peaks=peaks, **_figures(rest))


def _machine(table: dict[str, Any]) -> Machine:
    plain = {"chips", "bounds", "hosts", "name", "gke_accelerator"}
    figures = _figures({key: claims for key, claims in table.items() if key not in plain})
    return Machine(
        chips=table["chips"],
        bounds=tuple(table["bounds"]),
        hosts=table["hosts"],
        name=table.get("name"),
        gke_accelerator=table.get("gke_accelerator"),
        vcpu=figures.get("vcpu"),
        ram_bytes=figures.get("ram_bytes"),
    )


def _shape(name: str, topology: str) -> Shape:
    return Shape(name=name, size=int(name.rpartition("-")[2]), topology=parse_topology(topology))


def _figures(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Figure[Any]]:
    return {key: figure_of(claims) for key, claims in table.items()}
