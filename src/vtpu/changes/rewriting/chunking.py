"""A loss over wide rows rewritten so that it is computed for a part of the rows after the other.

The statements between the product and what is left of each row become a function of rows, and a helper calls it for
each part under `jax.checkpoint`, so that neither the forward nor the backward pass holds the wide array whole.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Helper, Replace
from vtpu.changes.rewriting.placing import before, without
from vtpu.changes.source.loops import statement_of
from vtpu.changes.source.names import bound, fresh, loaded, loads_of, spelled
from vtpu.changes.source.statements import has_long_text, stands_alone
from vtpu.changes.source.wide_operations import Use, is_on_rows
from vtpu.changes.source.wide_values import End, UsedWhole, WideValues, meant_in

_HELPER = '''
def {name}(function, chunks, *arrays):
    """`function` of arrays with rows, for a part of the rows after the other.

    Rows are along the last axis but one of the first array. What `function` makes on the way is held for
    one part only: its gradient makes it again.
    """
    axis, rows = arrays[0].ndim - 2, arrays[0].shape[-2]
    size = -(-rows // chunks)

    def split(x):
        widths = [(0, size * chunks - rows if i == axis else 0) for i in range(x.ndim)]
        x = {jnp}.pad(x, widths).reshape(*x.shape[:axis], size, chunks, *x.shape[axis + 1 :])
        return {jnp}.moveaxis(x, axis + 1, 0)

    def join(x):
        x = {jnp}.moveaxis(x, 0, axis + 1)
        x = x.reshape(*x.shape[:axis], size * chunks, *x.shape[axis + 2 :])
        return {lax}.slice_in_dim(x, 0, rows, axis=axis)

    parts = {lax}.map({checkpoint}(lambda part: function(*part)), tuple(split(x) for x in arrays))
    return {tree}.map(join, parts)
'''
_NAMES = {
    "take_along_axis": "picked",
    "logsumexp": "normalizers",
    "max": "largest",
    "argmax": "best",
    "sum": "sums",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunked:
    """The parts of a rewrite. `moved` are the statements that become a function of rows, `at` the one before which it
    stands, `inline` the ends in statements that stay, `outputs` the names that are given back.
    """

    wide: WideValues
    moved: list[ast.stmt]
    at: ast.stmt
    inline: list[End]
    outputs: list[str]


def plan(wide: WideValues) -> Chunked:
    """What has to move.

    Raises:
        UsedWhole: that cannot be done here.
    """
    file = wide.file
    of_rows = [s for e in wide.ends if (s := _row_statement(wide, e)) is not None]
    moved = sorted({*wide.statements, *of_rows}, key=lambda s: s.lineno)
    inside = {n for s in moved for n in ast.walk(s)}
    inline = [e for e in wide.ends if e.node not in inside]
    names = bound(moved)
    staying = [s for s in wide.block if s not in moved]
    uses = [
        s for s in staying if names & loaded([s]) or any(e.node in set(ast.walk(s)) for e in inline)
    ]
    if not uses:
        raise UsedWhole("nothing is made of it")
    outputs = [
        n for n in dict.fromkeys(n for s in of_rows for n in bound([s])) if n in loaded(staying)
    ]
    chunked = Chunked(wide=wide, moved=moved, at=uses[0], inline=inline, outputs=outputs)
    _check(file, chunked)
    return chunked


def edits_of(chunked: Chunked, chunks: int) -> list[Edit]:
    """What has to be written, with so many chunks."""
    wide, file = chunked.wide, chunked.wide.file
    names = _inline_names(chunked)
    inputs = _inputs(wide)
    inner = [*_renamed(wide, inputs), *_without_choices(wide)]
    function = fresh(file, "of_rows")
    helper, needs = _helper(file)
    results = ", ".join([*chunked.outputs, *names.values()])
    given = ", ".join([function, str(chunks), *inputs.values()])
    returned = ", ".join([*chunked.outputs, *(_inner_text(file, e, inner) for e in names)])
    body = [line for s in chunked.moved for line in _lines_of(file, s, inner)]
    lines = [
        f"def {function}({', '.join(inputs)}):",
        *(f"    {line}" if line else "" for line in [*body, f"return {returned}"]),
        "",
        f"{results} = {helper.name}({given})",
    ]
    edits: list[Edit] = [*needs, helper, before(file, chunked.at, *lines)]
    edits += [without(file, s) for s in chunked.moved]
    return edits + [_outer(file, end, name) for end, name in names.items()]


def _row_statement(wide: WideValues, end: End) -> ast.Assign | None:
    """The statement that keeps something of each row, where it can be done for some rows alone."""
    statement = statement_of(wide.file, end.node)
    if (
        not isinstance(statement, ast.Assign)
        or statement in wide.statements
        or end.use is not Use.ROWS
    ):
        return None
    is_plain = len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
    can_move = is_plain and statement in wide.block and is_on_rows(wide.file, statement.value)
    return statement if can_move else None


def _check(file: SourceFile, chunked: Chunked) -> None:
    """Checks that moving statements changes nothing else.

    Raises:
        UsedWhole: it would.
    """
    wide, names = chunked.wide, bound(chunked.moved)
    for statement in (*chunked.moved, chunked.at):
        if not stands_alone(file, statement) or has_long_text(statement):
            raise UsedWhole(f"line {statement.lineno} cannot be moved")
    if any(loaded([i]) & names for i in wide.row_inputs):
        raise UsedWhole("what goes in is made of it")
    if len(wide.choices) > 1 or (wide.choices and not _is_single_chain(wide)):
        raise UsedWhole("some of its rows are taken in one place and not in another")
    staying = [s for s in wide.block if s not in chunked.moved]
    taken = [(s, loaded([s]) - names) for s in chunked.moved]
    inline = [
        (s, loaded([e.node]) - names) for e in chunked.inline if (s := _in_block(wide, e.node))
    ]
    for statement, outside in (*taken, *inline):
        first, last = sorted((statement.lineno, chunked.at.lineno))
        between = [s for s in staying if first <= s.lineno < last]
        if outside & bound(between):
            raise UsedWhole(f"line {statement.lineno} takes what is assigned in between")


def _in_block(wide: WideValues, node: ast.AST) -> ast.stmt | None:
    return next((s for s in wide.block if node in set(ast.walk(s))), None)


def _is_single_chain(wide: WideValues) -> bool:
    """Whether all that is made of the product goes through the one place where rows are taken."""
    place = _in_block(wide, wide.choices[0].node)
    before_it = [s for s in wide.statements if place and s.lineno < place.lineno]
    return all(
        len(loads_of(name, meant_in(wide.block, s, name))) == 1
        for s in before_it
        for name in bound([s])
    )


def _inputs(wide: WideValues) -> dict[str, str]:
    """The parameters of the function of rows, with what is given for each."""
    inputs: dict[str, str] = {}
    for number, node in enumerate(wide.row_inputs):
        text = wide.file.source(node)
        if number == 0 and wide.choices:
            text = _chosen(wide, text)
        if text not in inputs.values():
            inputs[_parameter(wide, node, number, inputs)] = text
    return inputs


def _parameter(wide: WideValues, node: ast.expr, number: int, taken: Iterable[str]) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return fresh(wide.file, "labels" if number else "hidden", taken)


def _chosen(wide: WideValues, text: str) -> str:
    index = wide.choices[0].index
    assert index is not None
    return f"{text if text.isidentifier() else f'({text})'}[{wide.file.source(index)}]"


def _renamed(wide: WideValues, inputs: dict[str, str]) -> Iterator[Replace]:
    """In the function of rows, what goes in has its parameter's name."""
    names = {text: name for name, text in inputs.items()}
    for number, node in enumerate(wide.row_inputs):
        text = wide.file.source(node)
        name = next(iter(inputs)) if number == 0 else names[text]
        if name != text:
            begin, end = wide.file.span(node)
            yield Replace(file=wide.file.name, begin=begin, end=end, text=name)


def _without_choices(wide: WideValues) -> Iterator[Replace]:
    """In the function of rows all rows are those that are taken."""
    for choice in wide.choices:
        if not isinstance(choice.node, ast.Subscript):
            raise UsedWhole("rows are taken by a function")
        _, begin = wide.file.span(choice.node.value)
        _, end = wide.file.span(choice.node)
        yield Replace(file=wide.file.name, begin=begin, end=end, text="")


def _lines_of(file: SourceFile, statement: ast.stmt, edits: Iterable[Replace]) -> list[str]:
    """A statement's lines without indentation, with what is replaced in it."""
    begin = file.offset(statement.lineno, 0)
    end = file.span(statement)[1]
    return textwrap.dedent(_with(file, begin, end, edits)).split("\n")


def _with(file: SourceFile, begin: int, end: int, edits: Iterable[Replace]) -> str:
    inside = {(e.begin, e.end): e.text for e in edits if begin <= e.begin and e.end <= end}
    parts: list[str] = []
    done = begin
    for (first, last), text in sorted(inside.items()):
        parts += [file.text[done:first], text]
        done = last
    return "".join([*parts, file.text[done:end]])


def _inline_names(chunked: Chunked) -> dict[End, str]:
    names: dict[End, str] = {}
    for end in chunked.inline:
        wanted = _NAMES.get(end.name.rpartition(".")[2], "of_each_row")
        names[end] = fresh(chunked.wide.file, wanted, names.values())
    return names


def _inner_text(file: SourceFile, end: End, edits: Iterable[Replace]) -> str:
    """What an end is in the function of rows: a sum over everything is one over each row there."""
    text = _with(file, *file.span(end.node), edits)
    if end.use is not Use.TOTAL:
        return text
    is_method = isinstance(end.node, ast.Call) and not end.node.args
    return f"{text[:-1]}-1)" if is_method else f"{text[:-1]}, axis=-1)"


def _outer(file: SourceFile, end: End, name: str) -> Replace:
    """What stands in for an end where it was."""
    begin, last = file.span(end.node)
    text = name
    if end.use is Use.TOTAL:
        assert isinstance(end.node, ast.Call)
        is_method = not end.node.args
        text = f"{name}.{end.name}()" if is_method else f"{file.source(end.node.func)}({name})"
    return Replace(file=file.name, begin=begin, end=last, text=text)


def _helper(file: SourceFile) -> tuple[Helper, list[Edit]]:
    needs: list[Edit] = []
    words: dict[str, str] = {}
    for key, name in (
        ("jnp", "jax.numpy"),
        ("lax", "jax.lax"),
        ("checkpoint", "jax.checkpoint"),
        ("tree", "jax.tree"),
    ):
        words[key], imports = spelled(file, name)
        needs += imports
    name = fresh(file, "in_chunks")
    return Helper(file=file.name, name=name, source=_HELPER.format(name=name, **words)), needs
