"""A number of Python's that a loop turns into an array, made an array of that type at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vtpu.analysis.run.programs import Compilation
from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Wrap
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import called_on, site_of
from vtpu.changes.source.names import called, spelled
from vtpu.changes.source.origins import Origin, Origins

KIND = "weak-type"
_DIFFERS = re.compile(
    r"at (?P<path>\S+), now (?P<now>\w+)\[[^\]]*\]\{weak_type=(?P<is_weak>True|False)\}"
    r" and before (?P<before>\w+)\[[^\]]*\]\{weak_type=(True|False)\}"
)
_TYPES = {
    "f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64", "i32": "int32", "i64": "int64",
    "u32": "uint32", "i8": "int8", "i16": "int16", "u8": "uint8",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """An argument that was weakly typed in one call and is not in another; `type` is the strong one."""

    path: str
    type: str
    is_same_type: bool


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change for each program that was compiled again for a weak type."""
    again = [
        (one, differences)
        for program in situation.run.summary.programs
        for one in program.compilations
        if (differences := list(_differences(one)))
    ]
    if not again:
        yield NotApplicable(kind=KIND, reason="nothing is compiled again for a weak type")
    for one, differences in again:
        yield _change(situation, one, differences)


def _differences(one: Compilation) -> Iterator[_Difference]:
    for found in _DIFFERS.finditer(one.reason or ""):
        is_weak = found["is_weak"] == "True"
        strong, weak = (
            (found["before"], found["now"]) if is_weak else (found["now"], found["before"])
        )
        if f"{is_weak}" != found[5] and strong in _TYPES:
            yield _Difference(path=found["path"], type=_TYPES[strong], is_same_type=strong == weak)


def _change(
    situation: Situation, one: Compilation, differences: list[_Difference]
) -> Change | NotApplicable:
    file = situation.files.get(one.line.file)
    names = ", ".join(d.path for d in differences)
    edits = [e for d in differences if file for e in _edits(file, one.line.line, d)]
    if not edits:
        reason = (
            f"{one.line} compiles again: give {names} as an array of its type in the first call too"
        )
        return NotApplicable(kind=KIND, reason=reason)
    is_same = all(d.is_same_type for d in differences)
    return Change(
        kind=KIND,
        title=f"make {names} an array from the beginning ({one.line})",
        numerics=Numerics.IDENTICAL if is_same else Numerics.TOLERANCE,
        edits=tuple(edits),
        group=f"{KIND} {one.line}",
    )


def _edits(file: SourceFile, line: int, difference: _Difference) -> Iterator[Edit]:
    """The number becomes an array: where it is written in a call, or assigned before."""
    origins = Origins(file)
    spelling, imports = spelled(file, f"jax.numpy.{difference.type}")
    numbers: dict[ast.expr, None] = {}
    for argument in _arguments(file, line, difference.path.split("[")[0].split(".")[0]):
        values = (
            origins.values_of(argument, argument.id)
            if isinstance(argument, ast.Name)
            else [argument]
        )
        leaves = [_leaf(value, difference.path) for value in values]
        numbers |= {
            n: None
            for n in leaves
            if n is not None and origins.of(n) is Origin.NUMBER and n in file.parents
        }
    for number in numbers if len(numbers) == 1 else ():
        begin, end = file.span(number)
        yield Wrap(file=file.name, begin=begin, end=end, before=f"{spelling}(", after=")")
        yield from imports


def _arguments(file: SourceFile, line: int, parameter: str) -> Iterator[ast.expr]:
    """What calls of the function on a line give for one of its parameters."""
    for name in called_on(file, line):
        site = site_of(file, name)
        if site is None or parameter not in site.parameters:
            continue
        number = site.parameters.index(parameter)
        for call in ast.walk(file.tree):
            if isinstance(call, ast.Call) and called(file, call) == name:
                by_name = [k.value for k in call.keywords if k.arg == parameter]
                yield from by_name or call.args[number : number + 1]


def _leaf(value: ast.expr, path: str) -> ast.expr | None:
    """The part of an expression at a path of JAX's, `state['mean']`; None where it is not written out."""
    steps = ast.parse(path, mode="eval").body
    keys: list[object] = []
    while isinstance(steps, ast.Attribute | ast.Subscript):
        keys.append(
            steps.attr if isinstance(steps, ast.Attribute) else ast.literal_eval(steps.slice)
        )
        steps = steps.value
    at: ast.expr | None = value
    for key in reversed(keys):
        at = _child(at, key)
    return at


def _child(node: ast.expr | None, key: object) -> ast.expr | None:
    match node, key:
        case ast.Dict(keys=keys, values=values), _:
            found = [
                v
                for k, v in zip(keys, values, strict=True)
                if isinstance(k, ast.Constant) and k.value == key
            ]
        case ast.Tuple(elts=parts) | ast.List(elts=parts), int(number):
            found = parts[number : number + 1]
        case ast.Call(keywords=keywords), str(name):
            found = [k.value for k in keywords if k.arg == name]
        case _:
            found = []
    return found[0] if found else None


PROPOSAL = Proposal(
    kind=KIND,
    what="A number that is given in the first call becomes an array of the type that later calls have.",
    applies="A program was compiled twice because an argument was a Python number once, which has a weak type, "
    "and an array at another time.",
    numerics="None where both have the same type; else the first call computes in the later type.",
    propose=propose,
)
