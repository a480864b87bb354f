"""What people call a slice: the names of Cloud, GKE, Compute Engine, libtpu and xpk.

    Cloud            v5e-16, v5litepod-16        a size, in the unit of the generation
    libtpu           v5e:4x4                     a topology; the canonical name
    xpk              v5litepod-4x4
    GKE              tpu-v5-lite-podslice:4x4    node label `gke-tpu-accelerator` and topology
    Compute Engine   ct5lp-hightpu-4t:4x4        machine type and topology; alone: one such host

A word is what stands before the size or topology.
This module knows the words and writes names; `names` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from vtpu.chips.generations import Generation, Machine, Topology, all_generations
from vtpu.chips.shapes import format_topology, machines_for, num_hosts_with


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a word means: a generation, and the machines it restricts a slice to.

    `takes_size` says whether a size may follow (`v5e-16`). `machines` is None where the word leaves
    the machine open.
    """

    text: str
    generation: Generation
    takes_size: bool
    machines: tuple[Machine, ...] | None = None

    @property
    def stands_alone(self) -> bool:
        """Whether the word alone means one host: a machine type that makes slices of one."""
        if self.takes_size or self.machines is None or len(self.machines) != 1:
            return False
        return self.machines[0].name == self.text and self.machines[0].hosts != "several"


@cache
def words() -> tuple[Word, ...]:
    """Every word; longer ones first, and no text twice."""
    found: dict[str, Word] = {}
    for word in (word for generation in all_generations() for word in _words_of(generation)):
        found.setdefault(word.text, word)
    return tuple(sorted(found.values(), key=lambda word: (-len(word.text), word.text)))


def cloud_names(generation: Generation, topology: Topology) -> tuple[str, ...]:
    """The names with a size, such as `v5e-16`; none for a shape that Cloud does not name."""
    sizes = [shape.size for shape in generation.shapes if shape.topology == topology]
    return tuple(f"{name}-{size}" for size in sizes for name in generation.names)


def topology_names(generation: Generation, topology: Topology) -> tuple[str, ...]:
    """The names with a topology: the canonical `v5e:4x4` first, then libtpu's and xpk's."""
    shape = format_topology(topology)
    prefixes = dict.fromkeys((*generation.names, *generation.libtpu_names))
    with_colon = [f"{prefix}:{shape}" for prefix in prefixes]
    with_dash = [f"{name}-{shape}" for name in generation.names]
    return (*with_colon, *with_dash)


def gke_names(generation: Generation, topology: Topology) -> tuple[str, ...]:
    """The GKE accelerators with a topology, such as `tpu-v5-lite-podslice:4x4`."""
    labels = [machine.gke_accelerator for machine in machines_for(generation, topology)]
    shape = format_topology(topology)
    return tuple(f"{label}:{shape}" for label in dict.fromkeys(filter(None, labels)))


def machine_names(machine: Machine, topology: Topology) -> tuple[str, ...]:
    """The machine type with a topology, and alone where it is one host: `ct5lp-hightpu-4t:2x2`."""
    if machine.name is None:
        return ()
    full = f"{machine.name}:{format_topology(topology)}"
    return (full, machine.name) if num_hosts_with(machine, topology) == 1 else (full,)


def _words_of(generation: Generation) -> list[Word]:
    machines = generation.machines
    labels = dict.fromkeys(machine.gke_accelerator for machine in machines)
    return [
        *(Word(text=n, generation=generation, takes_size=True) for n in generation.names),
        *(Word(text=n, generation=generation, takes_size=False) for n in generation.libtpu_names),
        *(
            Word(
                text=label,
                generation=generation,
                takes_size=False,
                machines=tuple(m for m in machines if m.gke_accelerator == label),
            )
            for label in labels
            if label
        ),
        *(
            Word(text=machine.name, generation=generation, takes_size=False, machines=(machine,))
            for machine in machines
            if machine.name
        ),
    ]
