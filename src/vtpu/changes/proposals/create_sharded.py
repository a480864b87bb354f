"""Arrays made where they belong, not on the first device and spread from there."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vtpu.analysis.source.files import SourceFile
from vtpu.analysis.source_lines import SourceLine
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Keyword, Replace, Wrap
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.loops import statement_of
from vtpu.changes.source.names import bound, called, loaded, loads_of, spelled
from vtpu.changes.source.statements import block_of
from vtpu.recording.events import EventKind, MemoryKind, memory_kinds, of_kind, source_kinds

KIND = "create-sharded"
_SLICING = "jit__multi_slice"  # how jaxlib cuts an array that it spreads
_LEAST = 16 << 20  # bytes: less is not worth a change
_WITH_DEVICE = {
    f"jax.numpy.{name}"
    for name in ("zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "arange",
                 "linspace", "eye", "identity", "array", "asarray")
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Placed:
    """A `device_put` of what an expression makes: that expression, and where it is put."""

    call: ast.Call
    made: ast.expr
    place: ast.expr


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change for each line that spreads an array."""
    spread = _spread(situation) if situation.target.is_script else {}
    if not spread:
        reason = "no large array is made on one device and spread from there"
        yield NotApplicable(kind=KIND, reason=reason)
    for line, size in spread.items():
        file = situation.files.get(line.file)
        placed = _placed(file, line.line) if file else None
        edits = _edits(file, placed) if file and placed else ()
        if file and placed and edits:
            yield _change(situation, file, placed, edits, size)
        else:
            reason = f"{line} spreads what one device made: make it by `jax.jit(make, out_shardings=sharding)`"
            yield NotApplicable(kind=KIND, reason=reason)


def _spread(situation: Situation) -> dict[SourceLine, int | None]:
    """The lines that spread an array from one device, with the bytes of it where they are known.

    JAX slices it there and copies the slices. Where the slicing did not fit, nothing was copied.
    """
    run = situation.run
    slicing = [p for p in run.recording.programs if p.name == _SLICING]
    lines: dict[SourceLine, int | None] = {
        run.lines.line(p.stack): p.argument_bytes or None for p in slicing
    }
    for stack, size in _copied(run.recording.events).items():
        line = run.lines.line(stack)
        lines[line] = max(lines.get(line) or 0, size)
    return {
        line: size for line, size in lines.items() if line.line and (size is None or size >= _LEAST)
    }


def _copied(events: np.ndarray) -> dict[int, int]:
    """The bytes that go from device to device, by stack."""
    copies = of_kind(events, EventKind.COPY)
    is_device = (memory_kinds(copies) == MemoryKind.DEVICE) & (
        source_kinds(copies) == MemoryKind.DEVICE
    )
    copies = copies[is_device]
    stacks = np.unique(copies["stack"]).tolist()
    return {stack: int(copies["bytes"][copies["stack"] == stack].sum()) for stack in stacks}


def _placed(file: SourceFile, line: int) -> _Placed | None:
    """The `device_put` on a line, and what makes its array: there, or in the last assignment above."""
    calls = [n for n in file.on_line(line, ast.Call) if called(file, n) == "jax.device_put"]
    call = calls[0] if calls else None
    if not isinstance(call, ast.Call) or len(call.args) != 2:
        return None
    made, place = call.args
    if isinstance(made, ast.Name):
        made = _made_above(file, call, made.id, place)
    return _Placed(call=call, made=made, place=place) if isinstance(made, ast.Call) else None


def _made_above(file: SourceFile, call: ast.Call, name: str, place: ast.expr) -> ast.expr | None:
    """What the statement above assigns to a name that is used for nothing else before the call."""
    statement = statement_of(file, call)
    if statement is None:
        return None
    block = block_of(file, statement)
    above = block[: block.index(statement)]
    makers = [s for s in above if isinstance(s, ast.Assign) and name in bound([s])]
    if not makers or ast.unparse(makers[-1].targets[0]) != name:
        return None
    between = above[above.index(makers[-1]) + 1 :]
    if loads_of(name, between) or loaded([place]) & (bound(between) | {name}):
        return None
    return makers[-1].value


def _edits(file: SourceFile, placed: _Placed) -> tuple[Edit, ...]:
    made, place = placed.made, file.source(placed.place)
    assert isinstance(made, ast.Call)
    begin, end = file.span(made)
    if called(file, made) in _WITH_DEVICE:
        edit: Edit = Keyword(
            file=file.name, begin=begin, end=end, is_call=True, name="device", value=place
        )
        needs: tuple[Edit, ...] = ()
    elif _is_of_jax(file, made):
        jit, needs = spelled(file, "jax.jit")
        head, tail = f"{jit}(lambda: ", f", out_shardings={place})()"
        edit = Wrap(file=file.name, begin=begin, end=end, before=head, after=tail)
    else:
        return ()
    return (*needs, edit, *_unwrapped(file, placed))


def _is_of_jax(file: SourceFile, made: ast.Call) -> bool:
    """Whether what makes an array is JAX's, or a function of the file's: `init(key)`."""
    name = called(file, made)
    is_defined = any(isinstance(n, ast.FunctionDef) and n.name == name for n in file.tree.body)
    return name.startswith("jax.") or is_defined


def _unwrapped(file: SourceFile, placed: _Placed) -> Iterable[Edit]:
    """What is made in place need not be put there: `device_put(…, place)` around it goes."""
    if placed.made not in placed.call.args:
        return
    begin, end = file.span(placed.call)
    first, last = file.span(placed.made)
    yield Replace(file=file.name, begin=begin, end=first, text="")
    yield Replace(file=file.name, begin=last, end=end, text="")


def _change(
    situation: Situation,
    file: SourceFile,
    placed: _Placed,
    edits: tuple[Edit, ...],
    size: int | None,
) -> Change:
    what, line = file.source(placed.made), placed.made.lineno
    findings = situation.found("created-on-one-device")
    costs = [f.cost.hbm for f in findings if f.line.line in (line, placed.call.lineno)]
    is_plain = called(file, placed.made) in _WITH_DEVICE
    return Change(
        kind=KIND,
        title=f"make {what.partition('(')[0]}(…) in line {line} where it belongs",
        numerics=Numerics.IDENTICAL if is_plain else Numerics.TOLERANCE,
        edits=edits,
        group=f"{KIND} {file.name}:{line}",
        expected_bytes=next((c.value for c in costs if c), size),
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="Arrays are made with their sharding: `jnp.zeros(shape, dtype, device=sharding)`, else "
    "`jax.jit(make, out_shardings=sharding)`, and not spread from the first device.",
    applies="A script puts what one expression makes on several devices by `jax.device_put`, in the same block.",
    numerics="None for `jnp.zeros` and the like; what is computed under `jit` may differ by rounding.",
    propose=propose,
)
