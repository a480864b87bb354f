"""Which shapes a slice may have, where it wraps around, and which machine hosts it.

The rules, with where they are documented:

* A 2D torus (v2, v3, v5e, v6e) comes in the listed shapes only: Cloud has no custom 2D topologies.
* A 3D torus (v4, v5p, tpu7x) comes in the listed shapes, and in any shape of whole 4x4x4 cubes up
  to the pod, at most 256 chips along an axis (GKE, plan-tpus; xpk, `generate_tpu_topologies`).
* Axes ascend, AxBxC with A <= B <= C (Cloud, types-topologies). libtpu accepts any order and any
  multiple of the host bounds, even beyond the pod, where compiling aborts: what it accepts is not
  what can be had.
* A slice goes on as few hosts as the machines allow: `v5e:2x4` on one host of eight chips,
  `v5e:4x4` on four hosts of four.

Nothing here asks libtpu; the test `test_libtpu_agrees` does.
"""

from __future__ import annotations

from math import prod

from vtpu.chips.generations import Bounds, Generation, Machine, Topology

Wrap = tuple[bool, bool, bool]
"""Whether the torus wraps around along x, y and z."""


def format_topology(topology: Topology) -> str:
    """`(4, 4)` as `4x4`."""
    return "x".join(map(str, topology))


def bounds_of(topology: Topology) -> Bounds:
    """The topology along x, y and z."""
    x, y, z = (*topology, 1, 1)[:3]
    return x, y, z


def fit_axes(generation: Generation, topology: Topology) -> Topology:
    """The topology with the generation's number of axes, where that only takes a 1 at its end.

    libtpu takes `v5e:4x4x1` for `v5e:4x4` and `v5p:2x2` for `v5p:2x2x1`.
    """
    if generation.num_axes == 2 and len(topology) == 3 and topology[2] == 1:
        return topology[:2]
    if generation.num_axes == 3 and len(topology) == 2:
        return (*topology, 1)
    return topology


def refusal(generation: Generation, topology: Topology) -> str | None:
    """Why no slice has this topology, as a clause for a message; None if one has."""
    name = f"{generation.name}:{format_topology(topology)}"
    if len(topology) != generation.num_axes:
        return f"the torus of {generation.name} has {generation.num_axes} axes"
    if _is_legal(generation, topology):
        return None
    ascending: Topology = tuple(sorted(topology))
    if _is_legal(generation, ascending):
        right = f"{generation.name}:{format_topology(ascending)}"
        return f"{name} is {right} turned, and slices have their shortest axis first"
    chips, most = prod(topology), generation.pod.max_chips.value
    if chips > most:
        return f"{chips:,} chips are more than a pod of {generation.name} has, {most:,}"
    shape = format_topology(topology)
    return f"{shape} is not a slice shape of {generation.name} ({_rule(generation)})"


def wrap_of(generation: Generation, topology: Topology) -> Wrap:
    """Where a legal slice of this topology wraps around."""
    torus = generation.torus
    x, y, z = bounds_of(topology)
    if torus.cube_edge_chips:
        whole = _is_whole_cubes(topology, torus.cube_edge_chips.value)
        return whole, whole, whole
    edge = torus.wrap_axis_chips.value if torus.wrap_axis_chips else 0
    return x == edge, y == edge, z == edge


def num_hosts_with(machine: Machine, topology: Topology) -> int | None:
    """How many such machines make one slice of this topology; None if they do not."""
    bounds = bounds_of(topology)
    if any(chips % per_host for chips, per_host in zip(bounds, machine.bounds, strict=True)):
        return None
    hosts = prod(topology) // machine.chips
    if hosts == 1:
        return None if machine.hosts == "several" else hosts
    return None if machine.hosts == "one" else hosts


def machines_for(generation: Generation, topology: Topology) -> tuple[Machine, ...]:
    """The machines that host a legal slice of this topology; the usual one, fewest hosts, first."""
    fitting = [(num_hosts_with(machine, topology), machine) for machine in generation.machines]
    usable = [(hosts, machine) for hosts, machine in fitting if hosts is not None]
    return tuple(machine for _, machine in sorted(usable, key=lambda pair: pair[0]))


def shapes_near(generation: Generation, num_chips: int) -> tuple[Topology, ...]:
    """The listed topologies with at most as many chips, and with more: the closest of each."""
    by_chips = sorted((prod(shape.topology), shape.topology) for shape in generation.shapes)
    below = [topology for chips, topology in by_chips if chips <= num_chips]
    above = [topology for chips, topology in by_chips if chips > num_chips]
    return (*below[-1:], *above[:1])


def _is_legal(generation: Generation, topology: Topology) -> bool:
    if any(shape.topology == topology for shape in generation.shapes):
        return True
    torus = generation.torus
    if not torus.cube_edge_chips or not torus.max_axis_chips:
        return False
    return (
        _is_whole_cubes(topology, torus.cube_edge_chips.value)
        and tuple(sorted(topology)) == topology
        and max(topology) <= torus.max_axis_chips.value
        and prod(topology) <= generation.pod.max_chips.value
    )


def _is_whole_cubes(topology: Topology, edge: int) -> bool:
    return all(axis > 0 and axis % edge == 0 for axis in topology)


def _rule(generation: Generation) -> str:
    torus = generation.torus
    small = [shape.topology for shape in generation.shapes]
    if not torus.cube_edge_chips:
        return "those are " + ", ".join(map(format_topology, small))
    edge = torus.cube_edge_chips.value
    small = [topology for topology in small if not _is_whole_cubes(topology, edge)]
    return (
        f"those are {', '.join(map(format_topology, small))} and whole cubes,"
        f" every axis a multiple of {edge}"
    )
