"""The optimizer state in the host's memory between its uses."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.changes.change import ArgumentChange, Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Helper, Import
from vtpu.changes.goal import Goal
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.replacing import parts_replaced
from vtpu.changes.rewriting.split_state import Way, names_of
from vtpu.changes.rewriting.step_edits import (
    first_lines,
    results_wrapped,
    with_compiler_option,
)
from vtpu.changes.situation import Situation
from vtpu.changes.source.state import State, Taken, read_state
from vtpu.changes.source.step_calls import step_call

KIND = "optimizer-in-host-memory"
_LEAST_SHARE = 0.05  # of the program's memory
_HOST, _DEVICE = "jax.memory.Space.Host", "jax.memory.Space.Device"

_HELPER = "in_memory"
_SOURCE = '''
def in_memory(tree, space, below=("",)):
    """A tree with its arrays in a memory space; single numbers stay where they are. With `below` only what
    lies under these paths.
    """

    def move(path, array):
        is_asked = jax.tree_util.keystr(path).startswith(below) and array.ndim > 0
        return jax.device_put(array, space) if is_asked else array

    return jax.tree_util.tree_map_with_path(move, tree)
'''

#: The scheduler that hides latencies fetches all of the state before the step's first operation, where it
#: takes as much HBM as before (libtpu 0.0.50: temporaries grow by the size of the state). Without it each
#: array is fetched where it is used.
_OPTION = "xla_tpu_enable_latency_hiding_scheduler"


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """With the compiler's usual schedule, and with one that fetches late."""
    if situation.goal is Goal.SPEED:
        yield NotApplicable(kind=KIND, reason="it saves memory, and takes time")
        return
    state = read_state(situation)
    arrays = _arrays(state) if state else ()
    need = situation.program.report.need_bytes
    saved = sum(a.bytes * (1 if a.is_donated else 2) for a in arrays)
    if state is None or not arrays or (need and saved < _LEAST_SHARE * need):
        reason = "the optimizer state takes next to nothing" if arrays else "no argument is known to be an optimizer's state in device memory"  # fmt: skip
        yield NotApplicable(kind=KIND, reason=reason)
        return
    way = _way(situation, state, arrays)
    if isinstance(way, str):
        yield NotApplicable(kind=KIND, reason=way)
        return
    name = names_of(state, arrays)
    yield _change(f"{name} in host memory", way, saved)
    late = with_compiler_option(situation.site, _OPTION, value=False) if situation.site else None
    if late is not None:
        title = f"{name} in host memory, fetched where it is used"
        way = Way(edits=(*way.edits, late), arguments=way.arguments, advice=way.advice)
        yield _change(title, way, saved)


def _change(title: str, way: Way, saved: int) -> Change:
    return Change(
        kind=KIND,
        title=title,
        numerics=Numerics.IDENTICAL,
        edits=way.edits,
        arguments=way.arguments,
        advice=way.advice,
        group=KIND,
        caution="each step moves the state over the host link and back; the host needs room for it",
        expected_bytes=saved,
    )


def _arrays(state: State) -> tuple[Taken, ...]:
    return tuple(a for a in state.optimizer if not a.is_on_host and a.shape)


def _way(situation: Situation, state: State, arrays: tuple[Taken, ...]) -> Way | str:
    site = situation.site
    if site is None:
        return "where the function is jitted was not found"
    call = step_call(situation) if situation.target.is_script else None
    parts = state.parts(state.optimizer)
    put_back = results_wrapped(site, call, state, parts, _HELPER, _HOST)
    if isinstance(put_back, str):
        return put_back
    lines = [f"{p.tree} = {_HELPER}({p.tree}, {_DEVICE}{p.below_text})" for p in parts]
    fetched = first_lines(site, *lines)
    if fetched is None:
        return "the function has no place for a statement before its first one"
    edits = (*_needed(site.file.name), *fetched, *put_back)
    if not situation.target.is_script:
        changes = tuple(ArgumentChange(path=a.path, memory_kind="pinned_host") for a in arrays)
        advice = (
            f"put {names_of(state, arrays)} there where it is made: `jax.device_put(…, {_HOST})`"
        )
        return Way(edits=edits, arguments=changes, advice=advice)
    parts = state.parts(state.optimizer)
    placed = parts_replaced(call, parts, _HELPER, _HOST, early=True) if call else None
    if call is None or placed is None:
        return "where the step's optimizer state is made was not found"
    return Way(edits=(*edits, *_needed(call.file.name), *placed))


def _needed(file: str) -> tuple[Edit, ...]:
    return (
        Import(file=file, statement="import jax"),
        Helper(file=file, name=_HELPER, source=_SOURCE),
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="The optimizer state in the host's pinned memory: the step fetches it and puts the new one back. "
    "With the compiler's usual schedule, and with one that fetches each array where it is used "
    f"(`{_OPTION}` off), for the usual one fetches all of it before the step begins.",
    applies="An argument is known to be the optimizer's state, and where the function returns the new one is "
    "found.",
    numerics="None: the same operations.",
    propose=propose,
)
