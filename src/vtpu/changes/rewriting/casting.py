"""State in another type: the edits of a script and of the step, the arguments of a function."""

from __future__ import annotations

from collections.abc import Sequence

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import ArgumentChange
from vtpu.changes.edits import Edit, Helper, Import
from vtpu.changes.rewriting.replacing import parts_replaced
from vtpu.changes.rewriting.split_state import Way
from vtpu.changes.rewriting.step_edits import results_wrapped
from vtpu.changes.situation import Situation
from vtpu.changes.source.state import Part, State, Taken
from vtpu.changes.source.step_calls import StepCall, step_call
from vtpu.findings.rules.memory.not_donated import donatable
from vtpu.program.element_types import ElementType

#: The type that state gets.
TYPE = "bfloat16"
_CODE = f"jax.numpy.{TYPE}"

_HELPER = "as_type"
_SOURCE = '''
def as_type(tree, dtype, below=("",)):
    """A tree with its floating-point arrays in another type; with `below` only what lies under these paths."""

    def cast(path, array):
        is_asked = jax.tree_util.keystr(path).startswith(below)
        is_float = jax.numpy.issubdtype(jax.numpy.result_type(array), jax.numpy.floating)
        return jax.numpy.asarray(array, dtype) if is_asked and is_float else array

    return jax.tree_util.tree_map_with_path(cast, tree)
'''


def in_full(arrays: Sequence[Taken]) -> tuple[Taken, ...]:
    """Those that are float32."""
    return tuple(a for a in arrays if a.element_type is ElementType.F32)


def saved_bytes(arrays: Sequence[Taken]) -> int:
    """Bytes that a device saves; twice where the old and the new array are there together."""
    return sum(a.bytes // 2 * (1 if a.is_donated else 2) for a in in_full(arrays))


def cast_state(situation: Situation, state: State, arrays: Sequence[Taken]) -> Way | str:
    """Arrays of the state in bfloat16 from the first step on, or why that cannot be done."""
    call = step_call(situation) if situation.target.is_script else None
    parts = state.parts(arrays)
    edits = _results(situation, state, call, parts)
    if isinstance(edits, str):
        return edits
    if not situation.target.is_script:
        changes = tuple(ArgumentChange(path=a.path, dtype=TYPE) for a in in_full(arrays))
        names = ", ".join(p.name for p in parts)
        return Way(edits=edits, arguments=changes, advice=f"make {names} as {TYPE}")
    # directly before the loop: what is made of it before stays as it is
    made = parts_replaced(call, parts, _HELPER, _CODE, early=False) if call else None
    if call is None or made is None:
        return "where the step's arguments are made was not found"
    return Way(edits=(*edits, *cast_helper(call.file), *made))


def cast_helper(file: SourceFile) -> tuple[Edit, ...]:
    """The function that casts, in a file."""
    return (
        Import(file=file.name, statement="import jax"),
        Helper(file=file.name, name=_HELPER, source=_SOURCE),
    )


def cast_text(value: str) -> str:
    """The code of a value in bfloat16."""
    return f"{_HELPER}({value}, {_CODE})"


def _results(
    situation: Situation, state: State, call: StepCall | None, parts: Sequence[Part]
) -> tuple[Edit, ...] | str:
    """New state in the type of the old one; nothing where the function does not update it."""
    site = situation.site
    renewed = donatable(situation.program)
    updated = [p for p in parts if p.tree in renewed or any(a.is_donated for a in p.arrays)]
    if not updated:
        return ()
    if site is None:
        return "where the function is jitted was not found"
    wrapped = results_wrapped(site, call, state, updated, _HELPER, _CODE)
    return wrapped if isinstance(wrapped, str) else (*cast_helper(site.file), *wrapped)
