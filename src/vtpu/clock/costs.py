"""The time of every instruction of a schedule, alone on the chip."""

from __future__ import annotations

from dataclasses import dataclass, field

from vtpu.clock.facts import Facts
from vtpu.clock.machine import Machine
from vtpu.clock.operations import Timed, core_time, kernel_time, within
from vtpu.clock.program_time import Lane, OperationTime, Source
from vtpu.clock.resources import Resource
from vtpu.clock.traffic import (
    Collective,
    between_slices,
    collective_of,
    exchange_between_slices,
)
from vtpu.program.memory import MemorySpace
from vtpu.program.modules import Instruction
from vtpu.program.work import CollectivePart, Part, Work

_KERNEL = "tpu_custom_call"


@dataclass(frozen=True, slots=True)
class Cost:
    """An instruction's time, on which lane it runs, and what it does.

    `seconds` is None when there is no model for it.
    """

    seconds: float | None
    lane: Lane
    source: Source | None
    work: Work
    busy: dict[Resource, float] = field(default_factory=dict[Resource, float])
    collective: Collective | None = None

    @property
    def bound(self) -> Resource | None:
        """What takes longest."""
        return max(self.busy, key=lambda r: self.busy[r]) if self.busy else None


class Costs:
    """Costs of a module's instructions on a machine. Each is computed once."""

    def __init__(self, facts: Facts, machine: Machine) -> None:
        self._facts = facts
        self._machine = machine
        self._known: dict[int, Cost] = {}

    def of(self, instruction: Instruction) -> Cost:
        """The cost of an instruction; of an asynchronous one that of its start, of its done none."""
        if instruction.id not in self._known:
            self._known[instruction.id] = self._cost(instruction)
        return self._known[instruction.id]

    def _cost(self, instruction: Instruction) -> Cost:
        work = self._facts.work(instruction)
        part = self._facts.collective(instruction)
        if part is not None and part.part in (Part.WHOLE, Part.START):
            return self._communicating(part, work)
        if instruction.opcode == "recv" and between_slices(instruction):
            return self._from_other_slices(instruction, work)
        if work.transfers:
            return self._transferring(work)
        if _does_nothing(work):
            return Cost(0.0, Lane.CORE, Source.NOTHING, work)
        if (
            instruction.opcode == "async-start"
        ):  # SparseCore or the host computes: no model of these
            return Cost(None, Lane.CORE, None, work)
        return _on_core(work, self._core(instruction, work))

    def _core(self, instruction: Instruction, work: Work) -> Timed | None:
        if instruction.custom_call_target == _KERNEL:
            return kernel_time(work, self._machine)
        if self._sorts(instruction):  # its passes over the data depend on how it is emitted
            return None
        return core_time(work, self._facts.hints(instruction), self._machine)

    def _sorts(self, instruction: Instruction) -> bool:
        if instruction.opcode != "fusion":
            return instruction.opcode == "sort"
        inside = self._facts.module.computations[instruction.called[0]].instructions
        return any(inner.opcode == "sort" for inner in inside)

    def _communicating(self, part: CollectivePart, work: Work) -> Cost:
        assert work.payload is not None, "collectives have a payload"
        found = collective_of(self._facts.module, part, work.payload, self._machine)
        seconds = found.traffic.seconds if found else None
        if found is None or seconds is None:
            return Cost(None, Lane.LINKS, None, work)
        bound = found.traffic.bound
        lane = Lane.NETWORK if bound is Resource.DCN else Lane.LINKS
        return Cost(seconds, lane, Source.COLLECTIVE, work, {bound: seconds}, found)

    def _from_other_slices(self, instruction: Instruction, work: Work) -> Cost:
        """What other slices send, which the hosts exchange; what goes to them is a transfer to the host."""
        traffic = exchange_between_slices(instruction, self._machine.network)
        if traffic.seconds is None:
            return Cost(None, Lane.NETWORK, None, work)
        busy = {traffic.bound: traffic.seconds}
        found = Collective(traffic, frozenset())
        return Cost(traffic.seconds, Lane.NETWORK, Source.COLLECTIVE, work, busy, found)

    def _transferring(self, work: Work) -> Cost:
        start = self._machine.calibration.transfer_s
        host = sum(t.bytes for t in work.transfers if MemorySpace.HOST in (t.source, t.target))
        if not host:
            rate = self._machine.hbm_bytes_per_s * self._machine.calibration.hbm
            seconds = sum(t.bytes for t in work.transfers) / rate + start
            return Cost(seconds, Lane.MEMORY, Source.WORK, work, {Resource.HBM: seconds})
        lane = (
            Lane.TO_HOST
            if any(t.target == MemorySpace.HOST for t in work.transfers)
            else Lane.FROM_HOST
        )
        rate = self._machine.host_link_bytes_per_s
        if rate is None:
            return Cost(None, lane, None, work)
        seconds = host / rate + start
        return Cost(seconds, lane, Source.LINK, work, {Resource.HOST_LINK: seconds})


def _on_core(work: Work, found: Timed | None) -> Cost:
    if found is None:
        return Cost(None, Lane.CORE, None, work)
    busy, seconds, source = found
    return Cost(seconds, Lane.CORE, source, work, dict(busy))


def _does_nothing(work: Work) -> bool:
    return not (
        work.flops or work.vector_ops or work.transcendentals or work.read or work.written
    ) and (work.flops is not None)


def operation_time(
    instruction: Instruction, computation: int, runs: float, cost: Cost, error: float
) -> OperationTime:
    """The cost of an instruction as a result."""
    work = cost.work
    return OperationTime(
        instruction=instruction.id,
        computation=computation,
        runs=runs,
        time=None if cost.seconds is None else within(cost.seconds, error),
        bound=cost.bound,
        source=cost.source,
        busy=cost.busy,
        flops=work.flops,
        hbm_bytes=work.moved(MemorySpace.HBM),
        link_bytes=cost.collective.traffic.received_bytes if cost.collective else 0,
    )
