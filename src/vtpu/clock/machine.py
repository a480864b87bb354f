"""A device of a slice as the time model sees it: its rates, and its place in the torus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vtpu.chips import Slice
from vtpu.chips.generations import Chip, Links
from vtpu.clock.calibrations import Calibration, calibration_of
from vtpu.clock.collectives import Network
from vtpu.clock.torus import Position, Torus
from vtpu.program.element_types import ElementType

_BITS_OF_PEAKS = {"bf16": 16, "fp8": 8, "int8": 8, "int4": 4}
_FLOATS8 = {
    ElementType.F8E5M2, ElementType.F8E4M3FN, ElementType.F8E4M3B11FNUZ, ElementType.F8E5M2FNUZ,
    ElementType.F8E4M3FNUZ, ElementType.F8E4M3, ElementType.F8E3M4,
}  # fmt: skip
_INTEGERS8 = {ElementType.S8, ElementType.U8}
_INTEGERS4 = {ElementType.S4, ElementType.U4, ElementType.S2, ElementType.U2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one XLA device can do, and by id where all devices are.

    Rates are those of data sheets, per device: bytes and FLOP per second. `host_link` is one way; None when
    no source gives it.
    """

    chip: Chip
    calibration: Calibration
    clock_hz: float
    cores: int
    peak_flops_per_s: float
    hbm_bytes_per_s: float
    host_link_bytes_per_s: float | None
    network: Network
    torus: Torus
    positions: Mapping[int, Position]

    def product_rate(self, lhs: ElementType, rhs: ElementType) -> float:
        """FLOP per second of the matrix units for operands of these types.

        They multiply the wider of the two types; what is wider than bfloat16 goes over them in passes.
        """
        kinds = {lhs, rhs}
        name = "bf16"
        if kinds <= _INTEGERS4 | _INTEGERS8:
            name = "int4" if kinds <= _INTEGERS4 else "int8"
        elif kinds <= _FLOATS8:
            name = "fp8"
        peak = self.chip.peak_flops_per_s(name)
        return peak.value / self.chip.xla_devices_per_chip.value if peak else self.peak_flops_per_s


def machine_of(
    wanted: Slice, positions: Mapping[int, Position], calibration: Calibration | None = None
) -> Machine:
    """A device of `wanted`; `positions` says by id where the slices' devices are."""
    chip, links = wanted.generation.chip, wanted.generation.links
    calibration = calibration or calibration_of(wanted.generation.name)
    devices = chip.xla_devices_per_chip.value
    bf16 = chip.peak_flops_per_s("bf16")
    assert bf16 is not None, "every generation multiplies bfloat16"
    host_link = links.host_link_bytes_per_s
    return Machine(
        chip=chip,
        calibration=calibration,
        clock_hz=chip.clock_hz.value,
        cores=chip.tensorcores_per_chip.value // devices,
        peak_flops_per_s=bf16.value / devices,
        hbm_bytes_per_s=chip.hbm_bandwidth_bytes_per_s.value / devices,
        host_link_bytes_per_s=host_link.value * calibration.host_link if host_link else None,
        network=_network(links, calibration),
        torus=Torus(wanted.bounds, wanted.wrap),
        positions=positions,
    )


def _network(links: Links, calibration: Calibration) -> Network:
    link = links.ici_one_way_bytes_per_s_per_link
    return Network(
        link_bytes_per_s=link.value * calibration.ici if link else None,
        hop_s=links.ici_hop_s.value if links.ici_hop_s else calibration.hop_s,
        start_s=calibration.collective_s,
        dcn_bytes_per_s=links.dcn_bytes_per_s.value if links.dcn_bytes_per_s else None,
        dcn_start_s=calibration.collective_s,
    )
