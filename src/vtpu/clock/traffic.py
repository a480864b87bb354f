"""What a collective of a program asks of the network: which devices, how many bytes, which links."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.clock.collectives import (
    Network,
    Traffic,
    exchange_traffic,
    gather_traffic,
    permute_traffic,
    reduce_traffic,
)
from vtpu.clock.machine import Machine
from vtpu.clock.resources import Resource
from vtpu.clock.torus import Coords, Position, group_of
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape, leaves
from vtpu.program.work import CollectivePart, Payload

_SLICES_RUNTIME = "xla_megascale_runtime"

Link = tuple[int, int]
"""Links along an axis in one direction, of all chips: (axis, 1 or -1)."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective's traffic, and which links it keeps busy; none when it stays on its chip."""

    traffic: Traffic
    links: frozenset[Link]


def collective_of(
    module: Module, part: CollectivePart, payload: Payload, machine: Machine
) -> Collective | None:
    """The traffic of a collective; None where its devices are not those of the program."""
    if part.kind == "collective-permute":
        return _permute(module, part.collective, payload, machine)
    members = _members(module, part.collective, machine)
    return _among(part.kind, members, payload, machine) if members else None


def _members(
    module: Module, instruction: Instruction, machine: Machine
) -> tuple[Position, ...] | None:
    groups = instruction.collective.groups if instruction.collective else ()
    numbers = groups[0] if groups else range(len(module.devices))
    found = [_position(module, n, machine) for n in numbers]
    return tuple(p for p in found if p) if found and all(found) else None


def _position(module: Module, number: int, machine: Machine) -> Position | None:
    """Where the device at a place of the program's assignment is."""
    if number >= len(module.devices):
        return None
    return machine.positions.get(module.devices[number])


def _among(
    kind: str, members: tuple[Position, ...], payload: Payload, machine: Machine
) -> Collective:
    group = group_of(machine.torus, members)
    if kind == "all-reduce":
        traffic = reduce_traffic(payload.result_bytes, group, machine.network)
    elif kind in ("all-to-all", "ragged-all-to-all"):
        traffic = exchange_traffic(payload.operand_bytes, group, machine.network)
    else:  # the larger side is the whole: of an all-gather the result, of a reduce-scatter the operand
        whole = max(payload.operand_bytes, payload.result_bytes)
        traffic = gather_traffic(whole, group, machine.network)
    axes = {span.axis for span in group.spans}
    return Collective(traffic, frozenset((axis, way) for axis in axes for way in (1, -1)))


def _permute(
    module: Module, instruction: Instruction, payload: Payload, machine: Machine
) -> Collective | None:
    pairs = instruction.collective.pairs if instruction.collective else ()
    ways: list[tuple[Coords, Coords]] = []
    for source, target in pairs:
        a, b = _position(module, source, machine), _position(module, target, machine)
        if a is None or b is None:
            return None
        ways.append((a.coords, b.coords))
    if not ways:
        return None
    traffic = permute_traffic(payload.operand_bytes, machine.torus, ways, machine.network)
    links = {(axis, way) for a, b in ways for _, axis, way in machine.torus.route(a, b)}
    return Collective(traffic, frozenset(links))


def between_slices(instruction: Instruction) -> bool:
    """Whether a `send` or `recv` goes to the runtime that joins slices, not to the program's host."""
    return instruction.rendezvous.get("_xla_host_transfer_handler_name") == _SLICES_RUNTIME


def exchange_between_slices(instruction: Instruction, network: Network) -> Traffic:
    """What a `recv` of the runtime that joins slices waits for, over the network of one chip's share.

    A sum over S slices takes 2 (S - 1) / S of the bytes each way, as rings do; anything else its bytes.
    """
    shape = instruction.shape[0] if isinstance(instruction.shape, tuple) else instruction.shape
    size = sum(s.padded_bytes for _, s in leaves(shape) if isinstance(s, ArrayShape))
    slices = _first_set(instruction.rendezvous.get("_xla_megascale_target", ""))
    if "REDUCE" in instruction.rendezvous.get("_xla_megascale_transfer_type", "") and slices > 1:
        size = size * 2 * (slices - 1) // slices
    if network.dcn_bytes_per_s is None:
        return Traffic(None, Resource.DCN, size)
    return Traffic(size / network.dcn_bytes_per_s + network.dcn_start_s, Resource.DCN, size)


def _first_set(target: str) -> int:
    """How many slices `{1,2}x{0:3}` names; `{1:4}` is a range."""
    inside = target.partition("{")[2].partition("}")[0]
    first, colon, last = inside.partition(":")
    if colon and first.isdigit() and last.isdigit():
        return int(last) - int(first) + 1
    return len(inside.split(",")) if inside else 0
