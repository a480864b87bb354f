"""Results spread as the arguments that they replace, where they come back whole or in larger pieces."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from vtpu.analysis.program.argument_roles import tree_of
from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Replace
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import JitSite
from vtpu.changes.source.names import called
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.modules import Instruction
from vtpu.program.shapes import ArrayShape, Shape
from vtpu.program.shardings import Sharding

KIND = "out-shardings"
_LEAST_SHARE = 0.01  # of the program's need, of all arrays of an argument
Axes = tuple[tuple[str, ...], ...]
Spec = Sequence[str | tuple[str, ...] | None]
_SPECS = ("PartitionSpec", "P")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gathered:
    """A result that takes more on each device than the argument which it is like."""

    result: int
    argument: str
    axes: Axes
    lost_bytes: int


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """For each result that comes back in larger pieces: the argument's sharding, or none that is asked for."""
    need = situation.program.report.need_bytes or 0
    specs = {leaf.path: leaf.spec for leaf in situation.arguments if leaf.spec is not None}
    every = list(_gathered(situation.program, specs))
    lost: Counter[str] = Counter()
    for one in every:
        lost[tree_of(one.argument)] += one.lost_bytes
    found = [g for g in every if lost[tree_of(g.argument)] >= _LEAST_SHARE * need]
    if not found:
        yield NotApplicable(
            kind=KIND, reason="no result comes back in larger pieces than it went in"
        )
        return
    names = ", ".join(dict.fromkeys(tree_of(g.argument) for g in found))
    site = situation.site
    if site is None:
        reason = f"where the function is jitted was not found: give `out_shardings` for {names}"
        yield NotApplicable(kind=KIND, reason=reason)
        return
    places = [_place(site, situation.program, g.result) for g in found]
    if any(p is None for p in places):
        reason = (
            f"which of `out_shardings` is that of {names} was not found: give it the argument's"
        )
        yield NotApplicable(kind=KIND, reason=reason)
        return
    known = [p for p in places if p is not None]
    yield from _variants(site, found, known, names)


def _variants(
    site: JitSite, found: list[_Gathered], places: list[ast.expr | str], names: str
) -> Iterator[Change | NotApplicable]:
    texts = [_expression(site.file, g.axes) for g in found]
    ways = [texts] if all(texts) else []
    if all(isinstance(p, ast.expr) for p in places):
        ways.append(["None"] * len(found))
    if not ways:
        reason = f"no sharding in {site.file.name} is that of {names}: give it as `out_shardings`"
        yield NotApplicable(kind=KIND, reason=reason)
    for way in ways:
        edits = [_edit(site, p, t or "None") for p, t in zip(places, way, strict=True)]
        how = "as the compiler chooses" if way[0] == "None" else "as the argument is"
        yield Change(
            kind=KIND,
            title=f"{names} comes back spread {how}",
            numerics=Numerics.IDENTICAL,
            edits=tuple(dict.fromkeys(edits)),
            group=KIND,
            caution="what reads the result whole on one device gathers it there",
            expected_bytes=sum(g.lost_bytes for g in found),
        )


def _edit(site: JitSite, place: ast.expr | str, text: str) -> Edit:
    if isinstance(place, str):
        return site.with_keyword("out_shardings", place.format(text))
    begin, end = site.file.span(place)
    return Replace(file=site.file.name, begin=begin, end=end, text=text)


def _gathered(program: ProgramSubject, specs: Mapping[str, Spec]) -> Iterator[_Gathered]:
    """The results that are as large, put together, as an argument which is cut into more pieces.

    Compilers before libtpu 0.0.50 do not keep names of axes: `specs` has those of a function's arguments.
    """
    module = program.module
    root = module.result() if module else None
    if module is None or root is None or not module.parameter_shardings:
        return
    shapes = root.shape if isinstance(root.shape, tuple) else (root.shape,)
    arguments = list(zip(module.parameters(), module.parameter_shardings, strict=False))
    for number, (shape, own) in enumerate(zip(shapes, module.result_shardings, strict=False)):
        # of several that are alike the one in the same place: a step returns its state as it takes it
        in_place = chain(arguments[number : number + 1], arguments)
        pairs = ((p, s) for p, s in in_place if own and s and _is_like(p, s, shape, own))
        like = next(pairs, None)
        if like and isinstance(shape, ArrayShape):
            parameter, sharding = like
            piece = parameter.shape.padded_bytes if isinstance(parameter.shape, ArrayShape) else 0
            name = parameter.op_name or parameter.name
            yield _Gathered(
                result=number,
                argument=name,
                axes=_axes(specs.get(name, sharding.axes or ())),
                lost_bytes=shape.padded_bytes - piece,
            )


def _is_like(parameter: Instruction, cut: Sharding, shape: Shape, own: Sharding) -> bool:
    """Whether an argument has the type and, put together, the dimensions of a result in larger pieces."""
    given = parameter.shape
    if not isinstance(given, ArrayShape) or not isinstance(shape, ArrayShape):
        return False
    is_alike = given.element_type is shape.element_type and own.pieces < cut.pieces
    return is_alike and _whole(given.dims, cut) == _whole(shape.dims, own)


def _whole(dims: tuple[int, ...], sharding: Sharding) -> tuple[int, ...]:
    parts = sharding.parts or (1,) * len(dims)
    return tuple(d * p for d, p in zip(dims, parts, strict=False))


def _place(site: JitSite, program: ProgramSubject, number: int) -> ast.expr | str | None:
    """The code that says how a result is spread: an element of `out_shardings`, or all of it.

    Where there is none the text of a value with `{}` for the result's; None where trees of results make it
    unclear.
    """
    root = program.module.result() if program.module else None
    count = len(root.shape) if root and isinstance(root.shape, tuple) else 1
    there = site.keyword("out_shardings")
    elements = there.elts if isinstance(there, ast.Tuple | ast.List) else None
    if elements is not None:
        return elements[number] if len(elements) == count else None
    if there is not None:
        return there
    if count == 1:
        return "{}"
    returned = _returned(site)
    if len(returned) != count:
        return None
    return f"({', '.join('{}' if n == number else 'None' for n in range(count))})"


def _returned(site: JitSite) -> list[ast.expr]:
    """The results of a function that returns them at one place, as a tuple."""
    function = site.function
    if isinstance(function, ast.Lambda):
        values: list[ast.expr | None] = [function.body]
    else:
        nodes = ast.walk(function) if function else ()
        values = [n.value for n in nodes if isinstance(n, ast.Return)]
    value = values[0] if len(values) == 1 else None
    return value.elts if isinstance(value, ast.Tuple) else []


def _axes(spec: Spec) -> Axes:
    """The axes of each dimension, up to the last one that is cut."""
    axes = [() if e is None else (e,) if isinstance(e, str) else tuple(e) for e in spec]
    while axes and not axes[-1]:
        axes.pop()
    return tuple(axes)


def _expression(file: SourceFile, axes: Axes) -> str | None:
    """The name of a sharding of the file that is the same; None where none is."""
    for statement in file.tree.body:
        value = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Call):
            continue
        target = statement.targets[0]
        is_one = axes and called(file, value).endswith("NamedSharding") and len(value.args) > 1
        if isinstance(target, ast.Name) and is_one and _spec(file, value.args[1]) == axes:
            return target.id
    return None


def _spec(file: SourceFile, node: ast.expr) -> Axes | None:
    """The axes of each dimension in `P("x", None)`; None where they are not written out."""
    if not isinstance(node, ast.Call) or called(file, node).rpartition(".")[2] not in _SPECS:
        return None
    try:
        entries = [ast.literal_eval(a) for a in node.args]
    except ValueError:
        return None
    return _axes(entries)


PROPOSAL = Proposal(
    kind=KIND,
    what="`out_shardings` equal to the sharding of the argument that a result replaces.",
    applies="A result has the type and the whole shape of an argument, and comes back in larger pieces.",
    numerics="None: the same values on other devices.",
    propose=propose,
)
