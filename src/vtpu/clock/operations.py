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

Timed = tuple[Mapping[Resource, float], float, Source]
"""How long each resource is needed, how long the operation takes, and from what that is computed."""

_REGISTER_ELEMENTS = 8 * 128
#: Of a vector unit: "each ALU ... 4 per lane", jax-ml/scaling-book@0819a7d `tpus.md`.
_ALUS = 4
_SMALL_BYTES = 4096  # one register's worth: what scalar units and single vector instructions handle


def core_time(work: Work, hints: Hints, machine: Machine) -> Timed | None:
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


def _product_time(work: Work, hints: Hints, machine: Machine) -> Timed:
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
    return product.flops * product.passes / rate / filled(product, machine.chip.mxu_edge.value)


def filled(product: MatrixProduct, edge: int) -> float:
    """How much of the matrix units' array a product fills.

    One operand stays in the array: its two dimensions, of which one is what is summed over, take whole
    arrays of `edge` x `edge`. The compiler is taken to keep the operand that wastes less.
    """
    kept = max(filled_by(product.n, edge), filled_by(product.m, edge))
    return filled_by(product.k, edge) * kept


def filled_by(size: int, edge: int) -> float:
    """How much of whole arrays of `edge` a dimension fills."""
    return size / (-(-size // edge) * edge) if size else 1.0


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


def _cycles_time(work: Work, cycles: int, machine: Machine) -> Timed:
    seconds = cycles / machine.clock_hz * machine.calibration.other_cycles
    hbm = _hbm_seconds(work, machine)
    return {Resource.VPU: seconds, Resource.HBM: hbm}, max(seconds, hbm), Source.CYCLES


def _small_time(work: Work, machine: Machine) -> Timed | None:
    """What the compiler gives no cycles for: scalars and single registers; larger ones stream."""
    moved = work.moved(MemorySpace.HBM)
    if (work.vector_ops or 0) * 4 <= _SMALL_BYTES and moved <= _SMALL_BYTES:
        seconds = machine.calibration.step_s
        return {Resource.ISSUE: seconds}, seconds, Source.WORK
    hbm = _hbm_seconds(work, machine)
    seconds = hbm + machine.calibration.start_s
    return {Resource.HBM: hbm, Resource.ISSUE: machine.calibration.start_s}, seconds, Source.WORK


def kernel_time(work: Work, machine: Machine) -> Timed | None:
    """How long a kernel takes of which the work is known; None where it is not.

    What its body does is counted, the order of it is not: matrix units, vector units and HBM overlap as far
    as kernels were found to, `Calibration.kernel` of the time of the busiest.
    """
    if work.flops is None:
        return None
    c = machine.calibration
    mxu = sum(_mxu_seconds(product, machine) for product in work.products)
    if not work.products:  # an author's estimate says no shapes
        mxu = work.flops / (machine.peak_flops_per_s * c.mxu)
    busy = {
        Resource.MXU: mxu,
        Resource.VPU: _vector_seconds(work, machine),
        Resource.HBM: _hbm_seconds(work, machine),
        Resource.ISSUE: c.start_s,
    }
    return busy, max(busy.values()) / c.kernel + c.start_s, Source.KERNEL


def _vector_seconds(work: Work, machine: Machine) -> float:
    """Vector operations over all ALUs, or transcendental ones over their single unit, if that is more."""
    registers = machine.clock_hz * machine.cores * _REGISTER_ELEMENTS
    ops, transcendentals = work.vector_ops or 0, work.transcendentals or 0
    return max(ops / _ALUS, transcendentals) / registers


def within(seconds: float, error: float) -> Estimate:
    """A time with a relative error: as much faster as slower."""
    return Estimate(seconds, seconds / (1 + error), seconds * (1 + error))
