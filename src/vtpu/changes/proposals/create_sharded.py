"""Arrays created in the shards that they are to have, instead of whole on one device first."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Replace
from vtpu.changes.names import called
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.user_files import user_files
from vtpu.program.shapes import ArrayShape
from vtpu.recording.events import EventKind, of_kind

KIND = "create-sharded"
#: What `jax.device_put` runs on the device that has the array, to cut it.
_CUTS = "jit__multi_slice"
_WITH_DEVICE = ("zeros", "ones", "full", "empty", "arange", "eye", "linspace")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Placed:
    """`jax.device_put(made, sharding)` around a call that makes arrays, and the bytes that it moved."""

    file: SourceFile
    put: ast.Call
    made: ast.Call
    sharding: ast.expr
    bytes: int


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change: all places."""
    found = list(_placed(situation)) if situation.target.is_script else []
    if not found:
        reason = (
            "no array is made on one device and spread over others by `jax.device_put` around it"
        )
        yield NotApplicable(kind=KIND, reason=reason)
        return
    lines = ", ".join(dict.fromkeys(f"{p.file.name}:{p.put.lineno}" for p in found))
    has_jit = any(not _takes_device(p) for p in found)
    yield Change(
        kind=KIND,
        title=f"create arrays split from the start at {lines}",
        numerics=Numerics.TOLERANCE if has_jit else Numerics.IDENTICAL,
        edits=tuple(_edit(p) for p in found),
        group=KIND,
        caution="what makes the arrays is compiled as one program" if has_jit else "",
        expected_bytes=max(p.bytes for p in found),
    )


def _edit(placed: _Placed) -> Edit:
    file = placed.file
    begin, end = file.span(placed.put)
    made, sharding = file.source(placed.made), file.source(placed.sharding)
    if _takes_device(placed):
        comma = "" if made.removesuffix(")").rstrip().endswith((",", "(")) else ","
        text = f"{made.removesuffix(')').rstrip()}{comma} device={sharding})"
    else:
        text = f"jax.jit(lambda: {made}, out_shardings={sharding})()"
    return Replace(file=file.name, begin=begin, end=end, text=text)


def _takes_device(placed: _Placed) -> bool:
    """Whether the function that makes the array can be told where to."""
    module, _, name = called(placed.file, placed.made).rpartition(".")
    is_free = all(k.arg not in ("device", "out_sharding", None) for k in placed.made.keywords)
    return module == "jax.numpy" and name in _WITH_DEVICE and is_free


def _placed(situation: Situation) -> Iterator[_Placed]:
    moved = _moved_bytes(situation)
    for file in user_files(situation):
        for node in ast.walk(file.tree):
            size = _at(file, node, moved)
            if size and isinstance(node, ast.Call) and called(file, node) == "jax.device_put":
                given = [*node.args, *(k.value for k in node.keywords if k.arg == "device")]
                made = given[0] if len(given) == 2 else None
                if isinstance(made, ast.Call) and len(given) == len(node.args) + len(node.keywords):
                    yield _Placed(file=file, put=node, made=made, sharding=given[1], bytes=size)


def _at(file: SourceFile, node: ast.AST, moved: dict[tuple[str, int], int]) -> int:
    if not isinstance(node, ast.Call):
        return 0
    return sum(
        moved.get((file.name, n), 0)
        for n in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )


def _moved_bytes(situation: Situation) -> dict[tuple[str, int], int]:
    """The most bytes that each line copied between memories at once, or cut into shards on one device."""
    run = situation.run
    events = of_kind(run.recording.events, EventKind.COPY)
    found = [*zip(events["stack"].tolist(), events["bytes"].tolist(), strict=True)]
    for program in run.recording.programs:
        if program.name == _CUTS and (module := run.program(program.number).module) is not None:
            whole = module.parameters()[0].shape
            found.append(
                (program.stack, whole.padded_bytes if isinstance(whole, ArrayShape) else 0)
            )
    sizes: dict[tuple[str, int], int] = {}
    for stack, size in found:
        line = run.lines.line(stack)
        sizes[line.file, line.line] = max(sizes.get((line.file, line.line), 0), size)
    return sizes


PROPOSAL = Proposal(
    kind=KIND,
    what="`jnp.zeros(…, device=sharding)`, or `jax.jit(…, out_shardings=sharding)`, instead of "
    "`jax.device_put(jnp.zeros(…), sharding)`, which makes the whole array on one device first.",
    applies="A script makes an array within `jax.device_put` and the run copied it from device to device there.",
    numerics="None for constant arrays; equal within tolerance where what makes the arrays is compiled as one.",
    propose=propose,
)
