"""A slice: chips of one generation in one torus shape, on hosts; or several such slices.

Values only. A `Slice` is made by `parse_slice` (`names`), `slice_of` or `all_slices`; it answers
how many chips, devices and hosts there are, what the compiler must be told, and what the slice is
called.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

from vtpu.chips.dialects import cloud_names, gke_names, machine_names, topology_names
from vtpu.chips.generations import Bounds, Generation, Machine, Topology, all_generations
from vtpu.chips.shapes import Wrap, bounds_of, format_topology, machines_for, refusal, wrap_of

LibtpuOption = str | int | list[int] | list[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One or several slices of a TPU generation.

    `topology` is one slice's chips along each axis; `num_slices` equal slices are joined by DCN.
    `host_bounds` are the chips of a host along x, y, z, `chip_config` is libtpu's, and `wrap` says
    which of x, y, z wrap around.
    """

    generation: Generation
    topology: Topology
    num_slices: int
    host_bounds: Bounds
    chip_config: str
    wrap: Wrap

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The canonical name: `v5e:4x4`, `2*v5e:4x4`; on unusual hosts `ct5lp-hightpu-4t:2x4`."""
        return self._times + self._name_of_one

    @property
    def accelerator_type(self) -> str | None:
        """Cloud's name with a size, `v5e-16` or `2*v5e-16`; None for a shape that has none."""
        names = cloud_names(self.generation, self.topology) if self.is_on_usual_hosts else ()
        return self._times + names[0] if names else None

    @property
    def is_on_usual_hosts(self) -> bool:
        """Whether the slice has the hosts that Cloud gives it by default."""
        return self.host_bounds == machines_for(self.generation, self.topology)[0].bounds

    @property
    def machine(self) -> Machine:
        """The host machine; where several are alike in chips, the one Cloud uses for this shape."""
        machines = machines_for(self.generation, self.topology)
        return next(m for m in machines if m.bounds == self.host_bounds)

    @property
    def bounds(self) -> Bounds:
        """One slice's chips along x, y and z; z is 1 on a 2D torus."""
        return bounds_of(self.topology)

    @property
    def num_chips(self) -> int:
        """Chips of all slices."""
        return self.num_slices * prod(self.topology)

    @property
    def num_devices(self) -> int:
        """What `len(jax.devices())` says."""
        return self.num_chips * self.generation.chip.xla_devices_per_chip.value

    @property
    def num_hosts(self) -> int:
        """Host machines of all slices; JAX runs one process on each."""
        return self.num_chips // self.chips_per_host

    @property
    def chips_per_host(self) -> int:
        """Chips of one host; all hosts have as many."""
        return prod(self.host_bounds)

    @property
    def devices_per_host(self) -> int:
        """What `len(jax.local_devices())` says."""
        return self.num_devices // self.num_hosts

    @property
    def libtpu_name(self) -> str:
        """One slice as libtpu's `topology_name`."""
        return f"{self.generation.libtpu_names[0]}:{format_topology(self.topology)}"

    @property
    def libtpu_options(self) -> dict[str, LibtpuOption]:
        """Keyword arguments for `jax.experimental.topologies.get_topology_desc`, beside the name.

        libtpu 0.0.42.1 refuses a single chip without host bounds, so these are always given.
        """
        options: dict[str, LibtpuOption] = {
            "chip_config_name": self.chip_config,
            "chips_per_host_bounds": list(self.host_bounds),
            "num_slices": self.num_slices,
        }
        if any(self.wrap):
            options["wrap"] = list(self.wrap)
        return options

    @property
    def aliases(self) -> tuple[str, ...]:
        """Every name by which `parse_slice` knows this slice, the canonical one first."""
        generation, topology = self.generation, self.topology
        found = [self._name_of_one]
        if self.is_on_usual_hosts:
            found += cloud_names(generation, topology)
            found += topology_names(generation, topology)
            found += gke_names(generation, topology)
        for machine in machines_for(generation, topology):
            if machine.bounds == self.host_bounds:
                found += machine_names(machine, topology)
        return tuple(dict.fromkeys(self._times + name for name in found))

    def describe(self) -> str:
        """One line that repeats what was understood: `v5p-128 = v5p:4x4x4, 64 chips, 16 hosts`."""
        plain = f"{self._times}{self.generation.name}:{format_topology(self.topology)}"
        names = [self.accelerator_type or self.name, plain]
        counts = [_count(self.num_chips, "chip"), _count(self.num_hosts, "host")]
        if self.num_devices != self.num_chips:
            counts.insert(1, _count(self.num_devices, "device"))
        if self.num_slices > 1:
            counts.insert(0, _count(self.num_slices, "slice"))
        return f"{' = '.join(dict.fromkeys(names))}, {', '.join(counts)}"

    def describe_hosts(self) -> str:
        """Which hosts there are: `its hosts are 0 to 3`, `its only host is 0`."""
        if self.num_hosts == 1:
            return "its only host is 0"
        return f"its hosts are 0 to {self.num_hosts - 1}"

    @property
    def _times(self) -> str:
        return "" if self.num_slices == 1 else f"{self.num_slices}*"

    @property
    def _name_of_one(self) -> str:
        if self.is_on_usual_hosts:
            return f"{self.generation.name}:{format_topology(self.topology)}"
        return f"{self.machine.name}:{format_topology(self.topology)}"


def slice_of(
    generation: Generation,
    topology: Topology,
    *,
    machine: Machine | None = None,
    num_slices: int = 1,
) -> Slice:
    """The slice of this shape, on the usual machines or on `machine`.

    Args:
        generation: whose chips.
        topology: chips along each axis of one slice.
        machine: one of `machines_for(generation, topology)`.
        num_slices: 1 or more.

    Raises:
        ValueError: no slice has this topology, `machine` does not host it, or there are no slices.
    """
    reason = refusal(generation, topology)
    if reason:
        raise ValueError(reason)
    machines = machines_for(generation, topology)
    if machine is not None and machine not in machines:
        raise ValueError(f"{machine.name} does not host {format_topology(topology)}")
    if num_slices < 1:
        raise ValueError(f"there is at least one slice, not {num_slices}")
    return Slice(
        generation=generation,
        topology=topology,
        num_slices=num_slices,
        host_bounds=(machine or machines[0]).bounds,
        chip_config=generation.chip_config,
        wrap=wrap_of(generation, topology),
    )


def slices_of(generation: Generation) -> tuple[Slice, ...]:
    """The slices of a generation that can be had by name, by size."""
    return tuple(slice_of(generation, shape.topology) for shape in generation.shapes)


@cache
def all_slices() -> tuple[Slice, ...]:
    """Every slice that can be had by name, oldest generation first, by size."""
    return tuple(found for generation in all_generations() for found in slices_of(generation))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
