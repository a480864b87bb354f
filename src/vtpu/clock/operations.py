"""How long one operation keeps the core, alone on the chip.

A matrix product takes what the matrix units or HBM need, whichever is more, and what cannot overlap: its
start, loading the first windows, storing the last; or, where that is more, the compiler's own cycles. Other
fusions take those cycles, which know the vector units' work, but at least what HBM needs. All are scaled
by what calibration found.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from vtpu.clock.hints import Hints
from vtpu.clock.machine import Machine
from vtpu.clock.program_time import Estimate, Source
from vtpu.clock.resources import Resource
from vtpu.program.memory import MemorySpace
from vtpu.program.work import MatrixProduct, Work

_REGISTER_ELEMENTS = 8 * 128
_SMALL_BYTES = 4096  # one register's worth: what scalar units and single vector instructions handle


def core_time(
    work: Work, hints: Hints, machine: Machine
) -> tuple[Mapping[Resource, float], float, Source] | None:
    """How long each resource is needed, how long the operation takes, and from what that is computed.

    None when there is no model for it.
    """
    if work.flops is None:
        return None
    if work.products:
        return _product_time(work, hints, machine)
    if hints.estimated_cycles is not None:
        return _cycles_time(work, hints.estimated_cycles, machine)
    return _small_time(work, machine)


def _product_time(
    work: Work, hints: Hints, machine: Machine
) -> tuple[Mapping[Resource, float], float, Source]:
    c = machine.calibration
    mxu = sum(_mxu_seconds(product, machine) for product in work.products)
    hbm = _hbm_seconds(work, machine)
    stepping = c.start_s + _edges(work, hints, machine) + hints.steps * c.step_s
    cycles = (hints.estimated_cycles or 0) / machine.clock_hz * c.product_cycles
    busy = {Resource.MXU: mxu, Resource.HBM: hbm, Resource.ISSUE: stepping}
    time = max(mxu, hbm) + stepping
    if (
        cycles > time
    ):  # the compiler knows of something that these two do not: vector units, layouts
        return {**busy, Resource.COMPILER: cycles}, cycles, Source.CYCLES
    return busy, time, Source.WORK


def _mxu_seconds(product: MatrixProduct, machine: Machine) -> float:
    rate = machine.product_rate(product.lhs, product.rhs) * machine.calibration.mxu
    return product.flops * product.passes / rate


def _hbm_seconds(work: Work, machine: Machine) -> float:
    rate = machine.hbm_bytes_per_s * machine.calibration.hbm
    return work.moved(MemorySpace.HBM) / rate


def _edges(work: Work, hints: Hints, machine: Machine) -> float:
    """Loading before the first iteration and storing after the last, while the matrix units idle.

    Of a single iteration that is all that it reads and writes.
    """
    if hints.steps == 1:
        return _hbm_seconds(work, machine)
    windows = (hints.input_window, hints.kernel_window, hints.output_window)
    elements = sum(prod(window) * _REGISTER_ELEMENTS for window in windows if window)
    size = min(elements * 2, work.moved(MemorySpace.HBM))
    return size / (machine.hbm_bytes_per_s * machine.calibration.hbm)


def _cycles_time(
    work: Work, cycles: int, machine: Machine
) -> tuple[Mapping[Resource, float], float, Source]:
    seconds = cycles / machine.clock_hz * machine.calibration.other_cycles
    hbm = _hbm_seconds(work, machine)
    return {Resource.VPU: seconds, Resource.HBM: hbm}, max(seconds, hbm), Source.CYCLES


def _small_time(
    work: Work, machine: Machine
) -> tuple[Mapping[Resource, float], float, Source] | None:
    """What the compiler gives no cycles for: scalars and single registers; larger ones stream."""
    if (work.vector_ops or 0) * 4 <= _SMALL_BYTES:
        seconds = machine.calibration.step_s
        return {Resource.ISSUE: seconds}, seconds, Source.WORK
    hbm = _hbm_seconds(work, machine)
    seconds = hbm + machine.calibration.start_s
    return {Resource.HBM: hbm, Resource.ISSUE: machine.calibration.start_s}, seconds, Source.WORK


def kernel_time(
    work: Work, machine: Machine
) -> tuple[Mapping[Resource, float], float, Source] | None:
    """How long a kernel takes of which the work is known; None where it is not."""
    if work.flops is None:
        return None
    mxu = work.flops / (machine.peak_flops_per_s * machine.calibration.kernel_mxu)
    hbm = _hbm_seconds(work, machine)
    busy = {Resource.MXU: mxu, Resource.HBM: hbm, Resource.ISSUE: machine.calibration.start_s}
    return busy, max(mxu, hbm) + machine.calibration.start_s, Source.KERNEL


def within(seconds: float, error: float) -> Estimate:
    """A time with a relative error: as much faster as slower."""
    return Estimate(seconds, seconds / (1 + error), seconds * (1 + error))
