"""Devices in another order in the mesh: along the links of the slice, with its axes the other way round."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from math import prod

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Import, Replace
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.meshes import MeshMade, meshes_in
from vtpu.changes.source.names import called, spelled
from vtpu.changes.source.state import read_state
from vtpu.changes.source.user_files import user_files

KIND = "mesh-order"
_ORDERED = ("create_device_mesh", "create_hybrid_device_mesh")
_CAUTION = "which device holds what changes; code that counts on positions in the mesh sees others"


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """The devices in the order of their links, and the axes swapped."""
    reason = _without(situation)
    made = [m for f in user_files(situation) for m in meshes_in(f)] if not reason else []
    if reason or len(made) != 1:
        several = (
            f"{len(made)} meshes are made in its files"
            if made
            else "where the mesh is made was not found"
        )
        yield NotApplicable(kind=KIND, reason=reason or several)
        return
    found = [c for c in (_along_links(made[0]), _swapped(made[0])) if c is not None]
    yield from found
    if not found:
        line = made[0].node.lineno
        reason = f"the mesh of line {line} is made in a way that is not understood: `jax.make_mesh` orders devices by their links"
        yield NotApplicable(kind=KIND, reason=reason)


def _without(situation: Situation) -> str:
    """Why no order of devices matters; empty where one may."""
    state = read_state(situation)
    time = situation.program.report.program_time
    if state is None or prod(size for _, size in state.mesh) < 2:
        return "the program runs on one device, or on no mesh"
    if situation.slice.num_slices > 1:
        return "several slices are joined: their order is `mesh_utils.create_hybrid_device_mesh`'s"
    module = situation.program.module
    has_collective = module is not None and any(i.collective for i in module.by_id.values())
    if time is not None and not has_collective:
        return "its devices do not talk to one another"
    return ""


def _along_links(made: MeshMade) -> Change | None:
    """`Mesh(np.array(jax.devices()).reshape(…), …)` with devices in the order of the slice's links."""
    devices = made.node.args[0] if made.maker == "Mesh" and made.node.args else None
    shape = _shape_of(made, devices) if devices is not None else None
    if devices is None or shape is None:
        return None
    spelling, imports = spelled(made.file, "jax.experimental.mesh_utils.create_device_mesh")
    if imports or spelling.startswith("jax."):  # `import jax` alone does not have it
        statement = "from jax.experimental import mesh_utils"
        imports = (Import(file=made.file.name, statement=statement),)
        spelling = "mesh_utils.create_device_mesh"
    begin, end = made.file.span(devices)
    text = f"{spelling}({shape})"
    edit = Replace(file=made.file.name, begin=begin, end=end, text=text)
    return _change("devices of the mesh in the order of their links", (*imports, edit))


def _shape_of(made: MeshMade, devices: ast.expr) -> str | None:
    """The mesh's shape as code, where its devices are all of `jax.devices()` as they come."""
    if _is_plain(made, devices):
        return "(len(jax.devices()),)"
    is_reshaped = (
        isinstance(devices, ast.Call)
        and isinstance(devices.func, ast.Attribute)
        and devices.func.attr == "reshape"
        and _is_plain(made, devices.func.value)
    )
    if not is_reshaped or not isinstance(devices, ast.Call) or not devices.args:
        return None
    given = [made.file.source(a) for a in devices.args]
    if len(given) > 1:
        return f"({', '.join(given)})"
    return given[0] if isinstance(devices.args[0], ast.Tuple | ast.List) else f"({given[0]},)"


def _is_plain(made: MeshMade, node: ast.expr) -> bool:
    """`jax.devices()`, also as an array."""
    if called(made.file, node) in ("numpy.array", "numpy.asarray") and isinstance(node, ast.Call):
        return len(node.args) == 1 and _is_plain(made, node.args[0])
    is_devices = called(made.file, node) == "jax.devices"
    return is_devices and isinstance(node, ast.Call) and not node.args


def _swapped(made: MeshMade) -> Change | None:
    """The axes of the mesh the other way round, so that the other one has the neighbours."""
    if made.axes is None or len(made.axes) != 2 or len(made.node.args) < 2:
        return None
    names = made.node.args[1]
    if not isinstance(names, ast.Tuple | ast.List):
        return None
    first, second = (made.file.source(e) for e in names.elts)
    title = f"axes of the mesh in the order {second}, {first}"
    shape = made.node.args[0]
    if (
        made.maker == "make_mesh"
        and isinstance(shape, ast.Tuple | ast.List)
        and len(shape.elts) == 2
    ):
        edits = (*_exchange(made, shape), *_exchange(made, names))
        return _change(title, edits)
    reshaped = _reshaped(made, shape)
    return _change(title, (*reshaped, *_exchange(made, names))) if reshaped else None


def _reshaped(made: MeshMade, devices: ast.expr) -> tuple[Edit, ...]:
    """The two sizes of `….reshape(a, b)` or `create_device_mesh((a, b))` exchanged."""
    if not isinstance(devices, ast.Call):
        return ()
    attribute = called(made.file, devices).rpartition(".")[2]
    is_reshape = isinstance(devices.func, ast.Attribute) and devices.func.attr == "reshape"
    if not is_reshape and attribute not in _ORDERED[:1]:
        return ()
    if len(devices.args) == 1 and isinstance(devices.args[0], ast.Tuple | ast.List):
        given = devices.args[0]
        return _exchange(made, given) if len(given.elts) == 2 else ()
    return _exchanged(made, devices.args) if len(devices.args) == 2 else ()


def _exchange(made: MeshMade, pair: ast.Tuple | ast.List) -> tuple[Edit, ...]:
    return _exchanged(made, pair.elts)


def _exchanged(made: MeshMade, pair: list[ast.expr]) -> tuple[Edit, ...]:
    spans = [made.file.span(e) for e in pair]
    texts = [made.file.source(e) for e in reversed(pair)]
    return tuple(
        Replace(file=made.file.name, begin=begin, end=end, text=text)
        for (begin, end), text in zip(spans, texts, strict=True)
    )


def _change(title: str, edits: tuple[Edit, ...]) -> Change:
    return Change(
        kind=KIND,
        title=title,
        numerics=Numerics.TOLERANCE,
        edits=edits,
        group=KIND,
        caution=_CAUTION,
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="The mesh's devices in the order of the slice's links (`mesh_utils.create_device_mesh`) instead of "
    "that of `jax.devices()`, and its two axes the other way round.",
    applies="One mesh is made in the program's files, of `jax.devices()` or with `jax.make_mesh`, and its "
    "devices exchange something.",
    numerics="Equal within tolerance: the same sums, made by devices in another order.",
    propose=propose,
)
