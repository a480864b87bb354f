"""A program's state split over an axis of the mesh: the edits of a script, the arguments of a function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import ArgumentChange
from vtpu.changes.edits import Edit, Keyword
from vtpu.changes.rewriting.jit_shardings import freed_results, jit_split, place_of, replaced
from vtpu.changes.rewriting.replacing import state_replaced
from vtpu.changes.rewriting.splitting import (
    AXIS,
    HELPER,
    MESH_HELPER,
    NEW_MESH,
    Cut,
    helpers,
    spec_text,
    split,
    split_dimension,
)
from vtpu.changes.situation import Situation
from vtpu.changes.source.meshes import visible_mesh
from vtpu.changes.source.names import called
from vtpu.changes.source.state import Part, State, Taken
from vtpu.changes.source.step_calls import (
    StepCall,
    assigned_value,
    binding,
    is_bound_here,
    step_call,
)

_Shardings = Callable[[str], str]
_DATA_AXES = ("data", "fsdp", "dp", "batch", "replica")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a change is made. `mesh` is how the script spells it, empty for a function."""

    edits: tuple[Edit, ...] = ()
    arguments: tuple[ArgumentChange, ...] = ()
    advice: str = ""
    mesh: str = ""


def mesh_of(situation: Situation, state: State) -> tuple[tuple[str, int], ...]:
    """The program's mesh; where it has none, all devices of the slice along one axis."""
    return state.mesh or ((AXIS, situation.slice.num_devices),)


def data_axes_first(mesh: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The axes of a mesh that have several devices; those that data is usually spread over come first."""
    real = [(name, size) for name, size in mesh if size > 1]
    return sorted(real, key=lambda axis: axis[0] not in _DATA_AXES)


def split_state(situation: Situation, state: State, arrays: Sequence[Taken], cut: Cut) -> Way | str:
    """Arrays of the state split over an axis, or why that cannot be done."""
    if not any(split_dimension(a, cut) is not None for a in arrays):
        return f"no large array has a dimension that {cut.size} devices along {cut.axis!r} divide"
    if not situation.target.is_script:
        return _function_split(situation, state, arrays, cut)
    call = step_call(situation)
    if call is None:
        return "where the step is called was not found: look for its arguments there"
    mesh = mesh_text(call, state)
    if mesh is None:
        return f"what the mesh is called where {_where(call)} calls the step was not found"
    return _script_split(situation, state, arrays, cut, call, mesh)


def mesh_text(call: StepCall, state: State) -> str | None:
    """How a script spells the mesh at the call; a program without one gets one of all devices. None: there is
    one, and how it is called or what its axes are is not known.
    """
    there = visible_mesh(call.file, call.node)
    if state.mesh:
        return there
    return None if there else NEW_MESH


def mesh_edits(file: SourceFile, mesh: str) -> tuple[Edit, ...]:
    """What the spelling of a mesh needs."""
    return helpers(file, *([MESH_HELPER] if mesh == NEW_MESH else []))


def placed(mesh: str, spec: str) -> str:
    """The code of a sharding."""
    if mesh == NEW_MESH:
        return f"{MESH_HELPER}({spec})"
    return f"jax.sharding.NamedSharding({mesh}, jax.sharding.PartitionSpec({spec}))"


def names_of(state: State, arrays: Sequence[Taken]) -> str:
    """The arguments that arrays belong to, for people."""
    return ", ".join(part.name for part in state.parts(arrays))


def _where(call: StepCall) -> str:
    return f"{call.file.name}:{call.node.lineno}"


# ---- a function: the arguments are given -------------------------------------------------------


def _function_split(
    situation: Situation, state: State, arrays: Sequence[Taken], cut: Cut
) -> Way | str:
    site = situation.site
    if site is not None and site.keyword("in_shardings") is not None:
        return f"`in_shardings` of {place_of(site)} says how the arguments are spread: split them there"
    changes = [c for a in arrays if (c := split(a, cut)) is not None]
    trees = {a.tree for a in arrays}
    edits = freed_results(site, None, state, trees)
    if isinstance(edits, str):
        return edits
    return Way(edits=edits, arguments=tuple(changes), advice=_advice(changes))


def _advice(changes: Sequence[ArgumentChange], most: int = 4) -> str:
    listed = [
        f"{c.path}: NamedSharding(mesh, PartitionSpec({spec_text(c.spec or ())}))"
        for c in changes[:most]
    ]
    more = f" and {len(changes) - most} more alike" if len(changes) > most else ""
    return f"make or place the arrays so (`device=`, `jax.device_put`): {'; '.join(listed)}{more}"


# ---- a script: its files make the arguments ----------------------------------------------------


def _script_split(
    situation: Situation,
    state: State,
    arrays: Sequence[Taken],
    cut: Cut,
    call: StepCall,
    mesh: str,
) -> Way | str:
    edits: list[Edit] = []
    for part in state.parts(arrays):
        found = _split_part(call, part, mesh, cut)
        if found is None:
            return f"where {part.tree} gets its value before {_where(call)} was not found"
        edits += found
    trees = {a.tree for a in arrays}
    jit = jit_split(
        situation.site, call, state, trees, lambda value: _shardings_text(value, mesh, cut)
    )
    if isinstance(jit, str):
        return jit
    made = [MESH_HELPER] if mesh == NEW_MESH else []
    needed = helpers(call.file, *made, HELPER)
    return Way(edits=(*needed, *edits, *jit), mesh=mesh)


def _split_part(call: StepCall, part: Part, mesh: str, cut: Cut) -> tuple[Edit, ...] | None:
    below = part.below_text

    def shardings(value: str) -> str:
        return _shardings_text(value, mesh, cut, below)

    value = call.argument(part.tree)
    is_uncut = not any(a.used_axes for a in part.arrays)  # else what makes them cuts them already
    if is_uncut and value is not None and is_bound_here(call, value):
        statement = binding(call, value, for_all=True)
        made = assigned_value(statement) if statement is not None else None
        created = _created(call.file, made, shardings) if made is not None else None
        if created is not None:
            return (created,)
    return state_replaced(
        call, part.tree, lambda text: f"jax.device_put({text}, {shardings(text)})", early=True
    )


def _shardings_text(value: str, mesh: str, cut: Cut, below: str = "") -> str:
    exact = ", exact=True" if cut.exact else ""
    return f'{HELPER}({value}, {mesh}, "{cut.axis}"{below}{exact})'


def _created(file: SourceFile, made: ast.expr, shardings: _Shardings) -> Edit | None:
    """The array split where it is made or placed; None where the code is of another kind."""
    if not isinstance(made, ast.Call):
        return None
    name = called(file, made)
    if name == "jax.device_put" and made.args and isinstance(made.args[0], ast.Name):
        return _put(file, made, shardings(file.source(made.args[0])))
    if called(file, made.func) == "jax.jit" and isinstance(made.func, ast.Call):
        return _jitted(file, made, made.func, shardings)
    there = next((k for k in made.keywords if k.arg == "device"), None)
    if name.startswith("jax.numpy.") and there is not None:
        kept = [*map(file.source, made.args)]
        kept += [file.source(k.value) if k.arg is None else f"{k.arg}={file.source(k.value)}" for k in made.keywords if k is not there]  # fmt: skip
        shape = f"jax.eval_shape(lambda: {file.source(made.func)}({', '.join(kept)}))"
        return replaced(file, there.value, shardings(shape))
    return None


def _put(file: SourceFile, put: ast.Call, sharding: str) -> Edit | None:
    there = next((k.value for k in put.keywords if k.arg == "device"), None)
    there = put.args[1] if len(put.args) > 1 else there
    if there is not None:
        return replaced(file, there, sharding)
    begin, end = file.span(put)
    return Keyword(
        file=file.name, begin=begin, end=end, is_call=True, name="device", value=sharding
    )


def _jitted(file: SourceFile, made: ast.Call, jit: ast.Call, shardings: _Shardings) -> Edit | None:
    """`jax.jit(init)(key)` with results that are split from the start."""
    if not jit.args or any(k.arg != "out_shardings" for k in jit.keywords):
        return None  # static arguments and the like have no shapes
    given = [*map(file.source, made.args)]
    given += [f"{k.arg}={file.source(k.value)}" for k in made.keywords if k.arg]
    shapes = f"jax.eval_shape({', '.join([file.source(jit.args[0]), *given])})"
    if jit.keywords:
        return replaced(file, jit.keywords[0].value, shardings(shapes))
    begin, end = file.span(jit)
    return Keyword(
        file=file.name,
        begin=begin,
        end=end,
        is_call=True,
        name="out_shardings",
        value=shardings(shapes),
    )
