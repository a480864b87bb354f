"""What runs beside the core: which instruction begins it, and which one waits for its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtpu.analysis.time.flights import Flights
from vtpu.program.modules import Module


@dataclass(frozen=True, slots=True)
class Beside:
    """`starts` begin something beside the core; `done_of` says which instruction waits for its end."""

    starts: frozenset[int] = frozenset()
    done_of: Mapping[int, int] = field(default_factory=dict[int, int])


def find_beside(module: Module) -> Beside:
    """What runs beside the core in a module."""
    starts: set[int] = set()
    done_of: dict[int, int] = {}
    for computation in module.computations.values():
        flights = Flights(module)
        for instruction in computation.instructions:
            if flights.begin(instruction):
                starts.add(instruction.id)
            else:
                done_of |= dict.fromkeys(flights.end(instruction), instruction.id)
    return Beside(frozenset(starts), done_of)
