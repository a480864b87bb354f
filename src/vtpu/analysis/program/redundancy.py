"""Whether devices of a program all compute the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from vtpu.analysis.program.spread import Axes, mesh_of
from vtpu.program.modules import Instruction, Module

_TELLS_DEVICES_APART = ("partition-id", "replica-id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redundancy:
    """`times` devices compute the same; `axis` of the mesh is the one that does it, empty: of no name."""

    axis: str
    times: int


def find_redundancy(module: Module, num_devices: int) -> Redundancy | None:
    """The largest axis of the mesh along which all devices compute the same, or all devices.

    That is so when nothing tells them apart: no argument or result is cut along it, no instruction asks
    for the device's number, and no collective goes along it.
    """
    devices = max(len(module.devices), num_devices)
    shardings = (*module.parameter_shardings, *module.result_shardings)
    if devices < 2 or not module.parameter_shardings or None in shardings:
        return None
    instructions = tuple(module.by_id.values())
    if any(i.opcode in _TELLS_DEVICES_APART for i in instructions):
        return None
    if all(s.pieces == 1 for s in shardings if s) and not any(_talks(i) for i in instructions):
        mesh = mesh_of(module)
        return Redundancy(axis=mesh[0][0] if len(mesh) == 1 else "", times=devices)
    mesh = mesh_of(module)
    if prod(size for _, size in mesh) != devices:
        return None
    used = {name for s in shardings if s for name in s.used_axes} | _crossed(mesh, instructions)
    free = [(name, size) for name, size in mesh if name not in used and size > 1]
    best = max(free, key=lambda axis: axis[1], default=None)
    return Redundancy(axis=best[0], times=best[1]) if best else None


def _talks(instruction: Instruction) -> bool:
    return instruction.collective is not None


def _crossed(mesh: Axes, instructions: Iterable[Instruction]) -> set[str]:
    """The axes along which some collective moves data: the mesh numbers devices row by row."""
    found: set[str] = set()
    for instruction in filter(_talks, instructions):
        for one, other in _neighbours(instruction, prod(size for _, size in mesh)):
            pair = zip(mesh, _coordinates(mesh, one), _coordinates(mesh, other), strict=True)
            found |= {name for (name, _), a, b in pair if a != b}
    return found


def _neighbours(instruction: Instruction, devices: int) -> Iterator[tuple[int, int]]:
    """Pairs of devices that together span each group of a collective."""
    collective = instruction.collective
    if collective is None:
        return
    groups = collective.groups or (() if collective.pairs else (tuple(range(devices)),))
    for group in groups:
        yield from pairwise(group)
    yield from collective.pairs


def _coordinates(mesh: Axes, device: int) -> tuple[int, ...]:
    found: list[int] = []
    for _, size in reversed(mesh):
        found.append(device % size)
        device //= size
    return tuple(reversed(found))
