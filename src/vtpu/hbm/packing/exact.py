"""The smallest packing there is, by OR-Tools' CP-SAT. Meant for a window of a few hundred buffers.

Each life of a group is a rectangle, time by addresses; no two overlap, lives of one group have one
address, the top of the highest is minimised. The best of the compiler's algorithms is the start, so the
answer is never larger than theirs, however short the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from vtpu.errors import UsageError
from vtpu.hbm.packing.algorithms import Algorithm, pack
from vtpu.hbm.packing.bounds import aligned_bound
from vtpu.hbm.packing.problem import Group, Packing, Trace, lives, placed, round_up

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_HEURISTICS = (Algorithm.SPATIAL, Algorithm.TEMPORAL, Algorithm.FAST_MERGE, Algorithm.FAST_SPLIT)


@dataclass(frozen=True, slots=True)
class ExactPacking:
    """The smallest packing found, and what is proven: no legal packing is below `bound` bytes."""

    packing: Packing
    bound: int

    @property
    def is_optimal(self) -> bool:
        """Whether no legal packing is smaller, proven."""
        return self.packing.heap_size == self.bound


def pack_exactly(trace: Trace, effort: float = 2.0) -> ExactPacking:
    """The smallest packing of `trace` that is found with so much `effort`.

    The effort is CP-SAT's deterministic time, so that the answer does not depend on the machine's
    load. One unit is about 2 to 5 seconds of one core; only past 15 seconds per unit, which large
    windows can reach, the clock ends the search.

    Raises:
        UsageError: OR-Tools is not installed. A packing that reaches its bound needs none.
    """
    start, bound = _smallest(trace), aligned_bound(trace).size
    if start.heap_size == bound:
        return ExactPacking(start, bound)
    stack, floor = _stack(trace.groups, trace.alignment)
    rest = trace.only(frozenset(e.buffer for e in trace.events if e.buffer not in stack))
    above = _Model(rest, _smallest(rest), max(0, bound - floor)).solve(effort)
    raised = {b: offset + floor for b, offset in above.packing.offsets.items()}
    stacked = Packing(stack | raised, floor + above.packing.heap_size)
    return ExactPacking(_lower(start, stacked), min(floor + above.bound, start.heap_size))


def _smallest(trace: Trace) -> Packing:
    return min((pack(trace, a) for a in _HEURISTICS), key=lambda packing: packing.heap_size)


def _lower(one: Packing, other: Packing) -> Packing:
    return one if one.heap_size <= other.heap_size else other


def _stack(found: tuple[Group, ...], alignment: int) -> tuple[dict[int, int], int]:
    """Offsets of buffers that can lie at the bottom without loss, and the address above them.

    A group that meets all others in time has its addresses for itself: it cuts the heap into what is
    below and above, and the slices can be sorted. Of those groups one stays out, with the most padding:
    it may be best at the top, where padding costs nothing.
    """
    lasting = [g for g in found if g.size and len(lives(g)) == 1 and _meets_all(g, found)]
    lasting.sort(key=lambda g: round_up(g.size, alignment) - g.size)
    offsets: dict[int, int] = {}
    floor = 0
    for group in lasting[:-1]:
        offsets |= {m.buffer: floor for m in group.members}
        floor += round_up(group.size, alignment)
    return offsets, floor


def _meets_all(group: Group, found: tuple[Group, ...]) -> bool:
    return all(
        any(first <= group.end and last >= group.start for first, last in lives(other))
        for other in found
        if other.size
    )


class _Model:
    """Addresses in units of the alignment, tops in units of what all sizes are multiples of."""

    def __init__(self, trace: Trace, start: Packing, bound: int) -> None:
        self._cp = _cp_model()
        self._start, self._bound = start, bound
        self._groups = trace.groups
        self._alignment = trace.alignment
        self._unit = math.gcd(trace.alignment, *(g.size for g in self._groups))
        self._model = self._cp.CpModel()
        self._top = self._model.new_int_var(
            -(-bound // self._unit), start.heap_size // self._unit, "top"
        )
        slots = start.heap_size // trace.alignment
        self._at = {
            g.owner.buffer: self._model.new_int_var(0, slots, f"b{g.owner.buffer}")
            for g in self._sized()
        }
        self._constrain()

    def _sized(self) -> list[Group]:
        return [g for g in self._groups if g.size]

    def _constrain(self) -> None:
        times: list[cp_model.IntervalVar] = []
        spaces: list[cp_model.IntervalVar] = []
        for group in self._sized():
            at = self._at[group.owner.buffer]
            slots = -(-group.size // self._alignment)
            space = self._model.new_fixed_size_interval_var(at, slots, "")
            top = at * (self._alignment // self._unit) + group.size // self._unit
            self._model.add(top <= self._top)
            self._model.add_hint(at, self._start.offsets[group.owner.buffer] // self._alignment)
            for first, last in lives(group):
                times.append(self._model.new_fixed_size_interval_var(first, last + 1 - first, ""))
                spaces.append(space)
        self._model.add_no_overlap_2d(times, spaces)
        self._model.minimize(self._top)

    def solve(self, effort: float) -> ExactPacking:
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = effort
        solver.parameters.max_time_in_seconds = 15 * effort
        status = solver.solve(self._model)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return ExactPacking(self._start, self._bound)
        bound = max(self._bound, round(solver.best_objective_bound) * self._unit)
        offsets = {b: solver.value(at) * self._alignment for b, at in self._at.items()}
        empty = {g.owner.buffer: 0 for g in self._groups if not g.size}
        return ExactPacking(placed(self._groups, empty | offsets), bound)


def _cp_model() -> ModuleType:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise UsageError(
            "An exact packing needs OR-Tools, which is not installed: pip install 'vtpu[exact]'"
        ) from error
    return cp_model
