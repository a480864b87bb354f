"""Which planes of a profile are devices, and what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vtpu.chips import Generation, all_generations
from vtpu.reading.xplane.space import Plane, Space

_TPU = re.compile(r"/device:TPU:\d+$")
_GPU = re.compile(r"/device:GPU:\d+")
HOST = "/host:CPU"


class HardwareKind(StrEnum):
    """What a profile was recorded on."""

    TPU = "TPU"
    GPU = "GPU"
    HOST = "host"  # no device was traced


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What a profile was recorded on.

    `name` is the profile's own, null where it says none; `generation` vtpu's for it, null where it
    knows none. `cores` are device planes: on v4 and v5p each chip has two, which XLA sees as one
    device. Peaks are of one core, as the profile says them.
    """

    kind: HardwareKind
    name: str | None
    generation: str | None
    hosts: tuple[str, ...]
    cores: int
    is_megacore: bool
    peak_flops_per_s: float | None
    hbm_bytes_per_s: float | None
    is_modelled: bool


def device_planes(space: Space, kind: HardwareKind) -> tuple[Plane, ...]:
    """The planes of a profile's devices: cores of TPUs, GPUs, or the host."""
    if kind is HardwareKind.HOST:
        return tuple(plane for plane in space.planes if plane.name == HOST)
    pattern = _TPU if kind is HardwareKind.TPU else _GPU
    return tuple(plane for plane in space.planes if pattern.match(plane.name))


def find_hardware(spaces: Sequence[Space]) -> Hardware:
    """What some hosts' profiles were recorded on."""
    kind = next(
        (k for k in HardwareKind if any(_has_events(device_planes(s, k)) for s in spaces)), None
    )
    kind = kind or HardwareKind.HOST
    planes = [p for space in spaces for p in device_planes(space, kind)]
    is_host = kind is HardwareKind.HOST
    name = None if is_host else _text(planes, "device_type_string", "gpu_device_name")
    generation = _generation_of(name) if name else None
    return Hardware(
        kind=kind,
        name=name,
        generation=generation.name if generation else None,
        hosts=tuple(name for space in spaces for name in space.hostnames),
        cores=0 if is_host else len(planes),
        is_megacore=_number(planes, "has_megacore") == 1,
        peak_flops_per_s=_scaled(_number(planes, "peak_teraflops_per_second"), 1e12),
        hbm_bytes_per_s=_scaled(_number(planes, "peak_hbm_bw_gigabytes_per_second"), 1e9),
        is_modelled=any(str(p.stats.get("vtpu_time_basis", "")) for p in planes),
    )


def _has_events(planes: Iterable[Plane]) -> bool:
    return any(len(line.events) for plane in planes for line in plane.lines)


def _generation_of(name: str) -> Generation | None:
    """The generation that calls itself so: `TPU v5 lite`, in any case of letters."""
    return next((g for g in all_generations() if name.lower() in _names(g)), None)


def _names(generation: Generation) -> set[str]:
    kinds = (claim.value for claim in generation.chip.device_kind.claims)
    return {name.lower() for name in (*kinds, generation.title)}


def _text(planes: Iterable[Plane], *names: str) -> str | None:
    found = (plane.stats.get(name) for plane in planes for name in names)
    return next((value for value in found if isinstance(value, str) and value), None)


def _number(planes: Iterable[Plane], name: str) -> float | None:
    found = (plane.stats.get(name) for plane in planes)
    return next((float(v) for v in found if isinstance(v, int | float)), None)


def _scaled(value: float | None, factor: float) -> float | None:
    return value * factor if value else None
