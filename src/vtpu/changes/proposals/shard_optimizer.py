"""The optimizer state split over the devices that all hold it, the parameters left whole."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Wrap
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.split_state import (
    data_axes_first,
    mesh_of,
    names_of,
    placed,
    split_state,
)
from vtpu.changes.rewriting.splitting import GROUP, Cut, saved_bytes
from vtpu.changes.situation import Situation
from vtpu.changes.source.meshes import visible_mesh
from vtpu.changes.source.returns import returned
from vtpu.changes.source.state import State, read_state
from vtpu.changes.source.step_calls import step_call

KIND = "shard-optimizer"


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """Over the first axis of the mesh along which the state is whole."""
    state = read_state(situation)
    if state is None or not state.optimizer:
        yield NotApplicable(kind=KIND, reason="no argument is known to be an optimizer's state")
        return
    if not state.mesh:
        yield NotApplicable(kind=KIND, reason="the program has no mesh")
        return
    yield _change(situation, state)


def _change(situation: Situation, state: State) -> Change | NotApplicable:
    kept = _parameters_kept(situation, state)
    if isinstance(kept, str):
        return NotApplicable(kind=KIND, reason=kept)
    axis, size = data_axes_first(mesh_of(situation, state))[0]
    cut = Cut(axis=axis, size=size)
    way = split_state(situation, state, state.optimizer, cut)
    if isinstance(way, str):
        return NotApplicable(kind=KIND, reason=way)
    return Change(
        kind=KIND,
        title=f"split {names_of(state, state.optimizer)} {cut}",
        numerics=Numerics.TOLERANCE,
        edits=(*way.edits, *kept),
        arguments=way.arguments,
        advice=way.advice,
        group=GROUP,
        caution="each step gathers the new parameters; what reads the optimizer state elsewhere gets split arrays",
        expected_bytes=saved_bytes(state.optimizer, cut),
    )


def _parameters_kept(situation: Situation, state: State) -> tuple[Edit, ...] | str:
    """The new parameters as whole as the old ones, or the compiler would split them as the moments."""
    site = situation.site
    call = step_call(situation) if situation.target.is_script else None
    if any(a.used_axes for a in state.parameters):
        return "the parameters are split already; `shard-parameters` splits both"
    mesh = visible_mesh(site.file, site.node) if site else None
    trees = dict.fromkeys(part.tree for part in state.parts(state.parameters))
    are_whole = all(part.is_whole for part in state.parts(state.parameters))
    results = returned(site, call, state) if site else {}
    if site is None or mesh is None or not are_whole or not trees.keys() <= results.keys():
        return (
            "where the function returns the new parameters was not found: they have to stay whole there "
            "(`jax.lax.with_sharding_constraint`)"
        )
    spans = [site.file.span(results[tree].node) for tree in trees]
    after = f", {placed(mesh, '')})"
    before = "jax.lax.with_sharding_constraint("
    return tuple(
        Wrap(file=site.file.name, begin=begin, end=end, before=before, after=after)
        for begin, end in spans
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="The optimizer state split over an axis of the mesh while the parameters stay whole (ZeRO, stage 1).",
    applies="The program runs on a mesh, its optimizer state is whole along an axis, and where the function "
    "returns the new parameters is found.",
    numerics="Equal within tolerance: gradients are summed in another order.",
    propose=propose,
)
