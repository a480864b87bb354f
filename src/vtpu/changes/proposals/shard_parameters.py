"""Parameters, with the optimizer state or without, split over the devices that all hold them."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.split_state import data_axes_first, mesh_of, names_of, split_state
from vtpu.changes.rewriting.splitting import GROUP, Cut, saved_bytes, split_dimension
from vtpu.changes.situation import Situation
from vtpu.changes.source.state import State, Taken, read_state

KIND = "shard-parameters"
_MOST_AXES = 2


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """Over each axis of the mesh all state, and the parameters alone."""
    state = read_state(situation)
    if state is None or not state.parameters:
        yield NotApplicable(kind=KIND, reason="no argument is known to be the parameters")
        return
    if not state.mesh:
        reason = "the program has no mesh: `shard-batch` makes one" if situation.slice.num_devices > 1 else "there is one device"  # fmt: skip
        yield NotApplicable(kind=KIND, reason=reason)
        return
    found = list(_variants(situation, state))
    changes = [one for one in found if isinstance(one, Change)]
    yield from changes or found[:1]


def _variants(situation: Situation, state: State) -> Iterable[Change | NotApplicable]:
    both = (*state.parameters, *state.optimizer)
    for axis, size in data_axes_first(mesh_of(situation, state))[:_MOST_AXES]:
        cut = Cut(axis=axis, size=size)
        yield _change(situation, state, both, cut)
        exact = Cut(axis=axis, size=size, exact=True)
        if any(split_dimension(a, cut) != split_dimension(a, exact) for a in both):
            yield _change(situation, state, both, exact)
        if state.optimizer:
            yield _change(situation, state, state.parameters, cut)


def _change(
    situation: Situation, state: State, arrays: tuple[Taken, ...], cut: Cut
) -> Change | NotApplicable:
    way = split_state(situation, state, arrays, cut)
    if isinstance(way, str):
        return NotApplicable(kind=KIND, reason=way)
    return Change(
        kind=KIND,
        title=f"split {names_of(state, arrays)} {cut}",
        numerics=Numerics.TOLERANCE,
        edits=way.edits,
        arguments=way.arguments,
        advice=way.advice,
        group=GROUP,
        caution="each use gathers the parameters first, which takes time on the links; what reads them "
        "elsewhere (checkpoints, evaluation) gets split arrays",
        expected_bytes=saved_bytes(arrays, cut),
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="Parameters, and with them the optimizer state, split over an axis of the mesh along the largest "
    "dimension of each array that divides (fully sharded data parallelism), instead of a copy on each device; also along a dimension that has just "
    "the axis's size, as experts do.",
    applies="The program runs on a mesh, and large parameters are whole along one of its axes.",
    numerics="Equal within tolerance: gradients are summed in another order.",
    propose=propose,
)
