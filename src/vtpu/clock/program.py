"""The time of one execution of a compiled program on a slice."""

from __future__ import annotations

from collections.abc import Mapping

from vtpu.clock.costs import Costs, operation_time
from vtpu.clock.facts import Facts
from vtpu.clock.machine import Machine
from vtpu.clock.operations import within
from vtpu.clock.program_time import OperationTime, ProgramTime
from vtpu.clock.schedule import Schedule
from vtpu.program.modules import Module


def program_time(module: Module, machine: Machine, facts: Facts | None = None) -> ProgramTime:
    """How long one execution of `module` takes on one device of `machine`, and where the time goes.

    Every time is modelled; the whole has the error that calibration found for whole programs, an operation
    that for operations. Operations without a model are not in the total: `without_model` names them.
    `facts` saves reading the module again for another machine.
    """
    facts = facts or Facts(module)
    costs = Costs(facts, machine)
    schedule = Schedule(facts, costs)
    total = schedule.run(module.entry)
    exposed = schedule.exposed[module.entry]
    operations = _operations(module, costs, facts.runs, machine.calibration.operation_error)
    without = tuple(o.instruction for o in operations.values() if o.time is None)
    return ProgramTime(
        total=within(total, machine.calibration.program_error),
        core_busy=total - sum(exposed.values()),
        exposed=dict(exposed),
        operations=operations,
        passes=dict(schedule.passes),
        entry=module.entry,
        without_model=without,
        uncounted_loops=tuple(loop for loop, times in facts.trips.items() if times is None),
        unmodelled_flops=sum(_times(operations[i].flops, operations[i].runs) for i in without),
        unmodelled_bytes=sum(_times(operations[i].hbm_bytes, operations[i].runs) for i in without),
        flops=sum(_times(o.flops, o.runs) for o in operations.values()),
        hbm_bytes=sum(_times(o.hbm_bytes, o.runs) for o in operations.values()),
        peak_flops_per_s=_peak(facts, machine),
        hbm_bytes_per_s=machine.hbm_bytes_per_s,
        calibration=machine.calibration.provenance,
    )


def _peak(facts: Facts, machine: Machine) -> float:
    """FLOP per second of the data sheet for the products of a program: the mean over its FLOPs by their types.

    Products that go over the matrix units several times have so much less.
    """
    flops = seconds = 0.0
    for number, times in facts.runs.items():
        for instruction in facts.module.computations[number].instructions:
            for product in facts.work(instruction).products:
                amount = product.flops * (1.0 if times is None else times)
                flops += amount
                seconds += amount / machine.product_rate(product.lhs, product.rhs)
    return flops / seconds if seconds else machine.peak_flops_per_s


def _operations(
    module: Module, costs: Costs, counts: Mapping[int, float | None], error: float
) -> dict[int, OperationTime]:
    return {
        i.id: operation_time(i, number, 1.0 if times is None else times, costs.of(i), error)
        for number, times in counts.items()
        for i in module.computations[number].instructions
    }


def _times(amount: int | None, runs: float) -> int:
    return round((amount or 0) * runs)
