"""The batch split over devices that all compute the same; also over a mesh that is made for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from vtpu.changes.change import ArgumentChange, Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.jit_shardings import asks_elsewhere
from vtpu.changes.rewriting.replacing import batch_replaced, state_replaced
from vtpu.changes.rewriting.split_state import (
    Way,
    data_axes_first,
    mesh_edits,
    mesh_of,
    mesh_text,
    placed,
    split_state,
)
from vtpu.changes.rewriting.splitting import Cut, saved_bytes, spec_text
from vtpu.changes.situation import Situation
from vtpu.changes.source.state import Batch, State, Taken, find_batch, read_state
from vtpu.changes.source.step_calls import StepCall, step_call

KIND = "shard-batch"


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """Over all devices that have the same part of the batch; without a mesh also with the state split."""
    state = read_state(situation)
    batch = find_batch(state) if state else "the program has no arguments that are known"
    if state is None or isinstance(batch, str):
        yield NotApplicable(kind=KIND, reason=str(batch))
        return
    axes = _free_axes(situation, state, batch)
    if isinstance(axes, str):
        yield NotApplicable(kind=KIND, reason=axes)
        return
    way = _batch_split(situation, state, batch, axes)
    if isinstance(way, str):
        yield NotApplicable(kind=KIND, reason=way)
        return
    yield _change(situation, batch, axes, way)
    if not state.mesh:
        yield from _with_state(situation, state, batch, axes, way)


def _change(
    situation: Situation, batch: Batch, axes: Sequence[tuple[str, int]], way: Way
) -> Change:
    ways = prod(size for _, size in axes)
    step = situation.program.step_s
    return Change(
        kind=KIND,
        title=f"split {', '.join(batch.trees)} {ways} ways over {_named(axes)}",
        numerics=Numerics.TOLERANCE,
        edits=way.edits,
        arguments=way.arguments,
        advice=way.advice,
        group=KIND,
        caution="results that have rows of the batch come split too",
        expected_bytes=_activations(situation) * (1 - 1 / ways),
        expected_s=step * (1 - 1 / ways) if step is not None else None,
    )


def _with_state(
    situation: Situation,
    state: State,
    batch: Batch,
    axes: Sequence[tuple[str, int]],
    way: Way,
) -> Iterable[Change]:
    """The same with parameters and optimizer state split over the new mesh, instead of a copy on each device."""
    arrays = (*state.parameters, *state.optimizer)
    axis, size = axes[0]
    cut = Cut(axis=axis, size=size)
    rest = split_state(situation, state, arrays, cut)
    if isinstance(rest, str):
        return
    alone = _change(situation, batch, axes, way)
    batch_only = tuple(e for e in way.edits if e not in _state_edits(situation, state, way.mesh))
    yield Change(
        kind=KIND,
        title=f"{alone.title}, and the state with it",
        numerics=alone.numerics,
        edits=(*batch_only, *rest.edits),
        arguments=(*way.arguments, *rest.arguments),
        advice="; ".join(filter(None, (way.advice, rest.advice))),
        group=KIND,
        caution=f"{alone.caution}; each use gathers the parameters first, which takes time on the links",
        expected_bytes=(alone.expected_bytes or 0) + saved_bytes(arrays, cut),
        expected_s=alone.expected_s,
    )


def _free_axes(situation: Situation, state: State, batch: Batch) -> Sequence[tuple[str, int]] | str:
    """The axes over which the batch can be split further."""
    used = {name for a in batch.arrays for name in a.used_axes}
    others = {name for a in state.arrays for name in a.used_axes} - used
    mesh = data_axes_first(mesh_of(situation, state))
    free = [axis for axis in mesh if axis[0] not in used | others]
    if not used and not free:  # parameters are split over the axis that is to be the batch's too
        free = mesh[:1]
    if any(a.axes is None for a in batch.arrays):
        return "how the batch is spread over the mesh is not known"
    if not free:
        return "the batch is split over all devices that could share it" if mesh else "there is one device"  # fmt: skip
    ways = prod(size for _, size in free)
    if batch.size % (batch.cut * ways) and len(free) > 1:
        free = free[:1]
        ways = free[0][1]
    if batch.size % (batch.cut * ways):
        return f"a batch of {batch.size} cannot be split {batch.cut * ways} ways: make it a multiple of that"
    return free


def _batch_split(
    situation: Situation, state: State, batch: Batch, axes: Sequence[tuple[str, int]]
) -> Way | str:
    site = situation.site
    if site is not None and site.keyword("in_shardings") is not None:
        return asks_elsewhere(site)
    if not situation.target.is_script:
        changes = tuple(ArgumentChange(path=a.path, spec=_spec(a, axes)) for a in batch.arrays)
        text = placed("mesh", spec_text(changes[0].spec or ()))
        return Way(arguments=changes, advice=f"give {', '.join(batch.trees)} the sharding {text}")
    call = step_call(situation)
    mesh = mesh_text(call, state) if call else None
    if call is None or mesh is None:
        return "where the step is called, and what the mesh is called there, was not found"
    return _script_split(situation, state, batch, axes, call, mesh)


def _script_split(
    situation: Situation,
    state: State,
    batch: Batch,
    axes: Sequence[tuple[str, int]],
    call: StepCall,
    mesh: str,
) -> Way | str:
    first = (
        *(n for names in (batch.arrays[0].axes or ())[:1] for n in names),
        *(n for n, _ in axes),
    )
    place = placed(mesh, spec_text(first[:1] if len(first) == 1 else (first,)))
    edits: list[Edit] = list(mesh_edits(call.file, mesh))
    for tree in batch.trees:
        found = batch_replaced(call, tree, lambda text: f"jax.device_put({text}, {place})", place)
        if found is None:
            return f"where {tree} is given to the step was not found"
        edits += found
    return Way(edits=(*edits, *_state_edits(situation, state, mesh)), mesh=mesh)


def _state_edits(situation: Situation, state: State, mesh: str) -> tuple[Edit, ...]:
    """Of a program without a mesh: a copy of the state on each device of the new one, once and not at each step."""
    call = step_call(situation) if situation.target.is_script and not state.mesh else None
    if call is None:
        return ()
    found: list[Edit] = []
    for part in state.parts((*state.parameters, *state.optimizer)):
        found += state_replaced(
            call,
            part.tree,
            lambda text: f"jax.device_put({text}, {placed(mesh, '')})",
            early=True,
        ) or ()  # fmt: skip
    return tuple(found)


def _spec(
    array: Taken, axes: Sequence[tuple[str, int]]
) -> tuple[str | tuple[str, ...] | None, ...]:
    first = (*(array.axes or ((),))[0], *(name for name, _ in axes))
    return (first[0] if len(first) == 1 else first, *[None] * (len(array.shape) - 1))


def _activations(situation: Situation) -> int:
    """Bytes at the peak that are neither arguments nor results."""
    hbm = situation.program.report.usage.hbm if situation.program.report.usage else None
    return (
        sum(i.bytes for i in hbm.at_peak() if i.op_name and not i.name.startswith("result"))
        if hbm
        else 0
    )


def _named(axes: Sequence[tuple[str, int]]) -> str:
    return " and ".join(repr(name) for name, _ in axes)


PROPOSAL = Proposal(
    kind=KIND,
    what="The batch split over the devices of the mesh that otherwise compute the same; a program without "
    "a mesh on several devices gets one of all of them (data parallelism).",
    applies="The batch can be told, its size divides, and some devices of the slice have the same part of it.",
    numerics="Equal within tolerance: sums over the batch are made in another order.",
    propose=propose,
)
