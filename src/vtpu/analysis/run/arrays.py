"""The arrays of a run on one device: what made each, when it came and went, who looked at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.run.memory import programs_on
from vtpu.program.modules import Module
from vtpu.recording.events import EventFlag, EventKind, MemoryKind, memory_kinds, select
from vtpu.recording.recording import Recording

_LOOKS = (EventKind.DEVICE_TO_HOST, EventKind.WAIT)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrays:
    """The arrays that HBM of `device` held, in the order of their making, as columns.

    `made` and `freed` are rows of the recording; what was never freed has the number of rows.
    `execution` is the row of the execution whose output an array is, -1 of what the host placed, and
    `place` which of its outputs: those with memory of their own come first, see `output_number`.
    `is_passed_on`: it was freed by donation. `looked` is the last row where the host read it or waited
    for it, -1 where it never did.
    """

    recording: Recording
    device: int
    made: np.ndarray
    freed: np.ndarray
    execution: np.ndarray
    place: np.ndarray
    is_passed_on: np.ndarray
    looked: np.ndarray

    def __len__(self) -> int:
        return len(self.made)

    def column(self, name: str) -> np.ndarray:
        """A column of the events by which the arrays were made: `bytes`, `program`, `stack`, `detail`."""
        return self.recording.events[name][self.made]

    def take(self, which: np.ndarray) -> Arrays:
        """Some of the arrays, by a mask or indices."""
        columns = {name: getattr(self, name)[which] for name in _COLUMNS}
        return Arrays(recording=self.recording, device=self.device, **columns)


_COLUMNS = ("made", "freed", "execution", "place", "is_passed_on", "looked")


def arrays_of(recording: Recording, device: int) -> Arrays:
    """The arrays that HBM of a device held in a run."""
    events = recording.events
    here = events["device"] == device
    allocated = np.flatnonzero(here & (events["kind"] == EventKind.ALLOCATE))
    execution, place = _outputs(recording, device, allocated)
    in_hbm = memory_kinds(events[allocated]) == MemoryKind.DEVICE
    made = allocated[in_hbm]
    frees = np.flatnonzero(here & (events["kind"] == EventKind.FREE))
    freed = _last_rows(events, made, frees, missing=len(events))
    passed_on = frees[events["flags"][frees] & EventFlag.ALIASED != 0]
    looks = np.flatnonzero(np.isin(events["kind"], _LOOKS))
    return Arrays(
        recording=recording,
        device=device,
        made=made,
        freed=freed,
        execution=execution[in_hbm],
        place=place[in_hbm],
        is_passed_on=np.isin(freed, passed_on),
        looked=_last_rows(events, made, looks, missing=-1),
    )


def executions_on(recording: Recording, device: int) -> np.ndarray:
    """The rows of executions that happened on a device."""
    events = recording.events
    ran = (events["kind"] == EventKind.EXECUTE) & (events["flags"] & EventFlag.FAILED == 0)
    return np.flatnonzero(ran & programs_on(recording, device, events))


def output_number(module: Module, place: int) -> int | None:
    """Which result of a program is at a place among its outputs: those that donated memory holds are
    last. None where the module has no such result.
    """
    result = module.result()
    count = len(result.shape) if result and isinstance(result.shape, tuple) else 1
    aliased = {alias.output[0] if alias.output else 0 for alias in module.aliases}
    order: Sequence[int] = sorted(range(count), key=lambda number: number in aliased)
    return order[place] if place < count else None


def _outputs(
    recording: Recording, device: int, allocated: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each allocation on a device the row of its execution and its place among the outputs."""
    made = select(recording.events, allocated)
    tried = recording.events["kind"] == EventKind.EXECUTE  # outputs of failed ones were placed too
    runs = np.flatnonzero(tried & programs_on(recording, device, recording.events))
    programs = recording.events["program"][runs]
    execution = np.full(len(allocated), -1, np.int64)
    for program in np.unique(made["program"][made["program"] > 0]).tolist():
        mine, own = made["program"] == program, runs[programs == program]
        at = np.searchsorted(own, allocated[mine]) - 1
        execution[mine] = np.where(at >= 0, own[np.maximum(at, 0)], -1) if len(own) else -1
    return execution, _counted_within(execution)


def _counted_within(groups: np.ndarray) -> np.ndarray:
    """The number of each element within its group, from 0."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)])
    sizes = np.diff(np.append(first, len(ordered)))
    found = np.empty(len(groups), np.int64)
    found[order] = np.arange(len(groups)) - np.repeat(first, sizes)
    return found


def _last_rows(
    events: np.ndarray, made: np.ndarray, rows: np.ndarray, *, missing: int
) -> np.ndarray:
    """Of each array the last of some rows that are about it."""
    subjects = events["subject"][rows]
    order = np.argsort(subjects, kind="stable")
    at = np.searchsorted(subjects[order], events["subject"][made], side="right") - 1
    if not len(rows):
        return np.full(len(made), missing, np.int64)
    found = rows[order[np.maximum(at, 0)]]
    is_there = (at >= 0) & (events["subject"][found] == events["subject"][made])
    return np.where(is_there, found, missing)
