"""Whether another order of the devices in the mesh would serve the collectives of a program better.

A mesh is an order of devices: which of them work together in a collective follows from it. The orders that
are tried go along the axes of the torus one after the other, as the devices' coordinates sort; a mesh that is
cut from such an order has axes that are lines, rings and boxes of the torus. Of these only orders count in
which devices that work together are neighbours, and each is timed with the program's own schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from vtpu.analysis.time.programs import machine_of_slice
from vtpu.chips import Slice
from vtpu.clock.facts import Facts
from vtpu.clock.machine import Machine
from vtpu.clock.program import program_time
from vtpu.clock.torus import Group, Position, group_of
from vtpu.program.modules import Instruction, Module

_AXES = "xyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshOrder:
    """Another order of a program's devices: by which coordinates, the most significant first.

    `now_s` and `then_s` are one execution with the order that the program has and with this one.
    `positions` say for each place in the program's assignment where its device would be.
    """

    by: tuple[str, ...]
    now_s: float
    then_s: float
    positions: tuple[Position, ...]

    @property
    def gain_s(self) -> float:
        """What a step would be shorter by."""
        return self.now_s - self.then_s


@dataclass(frozen=True, slots=True)
class Groups:
    """Devices that work together in a collective, as they are and as they would be in another order."""

    now: Group
    then: Group


def better_order(module: Module, wanted: Slice) -> MeshOrder | None:
    """The order with the shortest step, where that is not the program's own; None where none is better."""
    machine, facts = machine_of_slice(wanted), Facts(module)
    here = [machine.positions.get(device) for device in module.devices]
    if not all(here):
        return None
    now = program_time(module, machine, facts).total.seconds
    members = _members(module)
    found = [
        MeshOrder(by=by, now_s=now, then_s=_seconds(facts, machine, places), positions=places)
        for by, places in _orders([p for p in here if p])
        if all(_are_neighbours(machine, [places[n] for n in group]) for group in members)
    ]
    best = min(found, key=lambda order: order.then_s, default=None)
    return best if best and best.gain_s > 0 else None


def groups_of(
    module: Module, collective: Instruction, wanted: Slice, order: MeshOrder
) -> Groups | None:
    """The first group of a collective's devices now and in another order; None for a permutation."""
    members = _group(module, collective)
    if not members:
        return None
    machine = machine_of_slice(wanted)
    now = tuple(machine.positions[module.devices[n]] for n in members)
    then = tuple(order.positions[n] for n in members)
    return Groups(group_of(machine.torus, now), group_of(machine.torus, then))


def _members(module: Module) -> set[tuple[int, ...]]:
    """The first groups of all collectives, as places in the program's assignment."""
    instructions = (i for c in module.computations.values() for i in c.instructions)
    return {_group(module, i) for i in instructions if i.collective}


def _group(module: Module, collective: Instruction) -> tuple[int, ...]:
    """The first group of a collective; none of a permutation."""
    named = collective.collective
    if named is None or named.pairs:
        return ()
    return named.groups[0] if named.groups else tuple(range(len(module.devices)))


def _are_neighbours(machine: Machine, members: list[Position]) -> bool:
    """Whether devices are a box of the torus without others between them."""
    if not members:
        return True
    group = group_of(machine.torus, tuple(members))
    return group.is_box and all(span.stride == 1 for span in group.spans)


def _orders(places: list[Position]) -> Iterator[tuple[tuple[str, ...], tuple[Position, ...]]]:
    """The devices sorted by their coordinates, whichever of them counts most; each order once."""
    used = [axis for axis in range(3) if len({p.coords[axis] for p in places}) > 1]
    for axes in permutations(used):
        order = sorted(places, key=lambda p: (p.slice_index, [p.coords[a] for a in axes], p.core))
        if order != places:
            yield tuple(_AXES[axis] for axis in axes), tuple(order)


def _seconds(facts: Facts, machine: Machine, places: tuple[Position, ...]) -> float:
    """One execution with the program's devices at other places."""
    moved = dict(zip(facts.module.devices, places, strict=True))
    elsewhere = replace(machine, positions={**machine.positions, **moved})
    return program_time(facts.module, elsewhere, facts).total.seconds
