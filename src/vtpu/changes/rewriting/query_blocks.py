"""Attention in blocks of queries: the scores of one block are alive, and are computed again for the gradient."""

from __future__ import annotations

import ast

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Helper, Import, Replace
from vtpu.changes.rewriting.placing import without
from vtpu.changes.source.attention import Attention, NotAttention
from vtpu.changes.source.names import fresh
from vtpu.changes.source.statements import indentation, stands_alone

NAME = "in_query_blocks"
_SOURCE = '''
def in_query_blocks(attend, queries, rows, axis, out_axis, block):
    """attend(queries, *rows) for at most `block` queries at a time.

    The scores of one block are alive at once, and computed again in the backward pass. `rows` are arrays
    beside the scores; those with a row for each query are cut as the queries are. Each block has every n-th
    query, so that all devices have a part of it where the sequence is split over them.
    """
    count = queries.shape[axis]
    size = max(n for n in range(1, min(block, count) + 1) if count % n == 0)

    def cut(x, axis):
        axis %= x.ndim
        parts = x.reshape(*x.shape[:axis], size, count // size, *x.shape[axis + 1 :])
        return jax.numpy.moveaxis(parts, axis + 1, 0)

    def has_rows(x):
        return jax.numpy.ndim(x) > 1 and x.shape[-2] == count

    def attend_to(parts):
        queries, own = parts
        own = iter(own)
        return attend(queries, *(next(own) if has_rows(x) else x for x in rows))

    own = [cut(x, -2) for x in rows if has_rows(x)]
    out = jax.lax.map(jax.checkpoint(attend_to), (cut(queries, axis), own))
    out_axis %= out.ndim - 1
    out = jax.numpy.moveaxis(out, 0, out_axis + 1)
    return out.reshape(*out.shape[:out_axis], count, *out.shape[out_axis + 2 :])
'''


def in_query_blocks(attention: Attention, block: int) -> tuple[Edit, ...]:
    """The edits that have attention go over blocks of queries.

    Raises:
        NotAttention: it stands where no function can be put before it.
    """
    file = attention.file
    moved = [*attention.between, attention.last]
    if not all(stands_alone(file, s) for s in moved):
        raise NotAttention("its statements share their lines with others")
    names = [
        fresh(file, "rows" if not n else f"rows_{n + 1}") for n in range(len(attention.others))
    ]
    parts = {
        attention.queries: fresh(file, "queries"),
        **dict(zip(attention.others, names, strict=True)),
    }
    attend = fresh(file, "attend")
    rows = ", ".join(file.source(o) for o in attention.others)
    listed = f"({rows},)" if rows else "()"
    call = (
        f"{NAME}({attend}, {file.source(attention.queries)}, {listed}, "
        f"{attention.query_axis}, {attention.out_axis}, {block})"
    )
    begin, end = file.span(attention.result)
    return (
        *(without(file, s) for s in attention.between),
        _definition(attention, attend, parts),
        Replace(file=file.name, begin=begin, end=end, text=call),
        Import(file=file.name, statement="import jax"),
        Helper(file=file.name, name=NAME, source=_SOURCE),
    )


def _definition(attention: Attention, name: str, parts: dict[ast.expr, str]) -> Replace:
    """The function of one block, before the last statement."""
    file = attention.file
    space = indentation(file, attention.last)
    body = [f"{space}    {_text(file, s, parts)}\n" for s in attention.between]
    result = f"{space}    return {_text(file, attention.result, parts)}\n"
    head = f"{space}def {name}({', '.join(parts.values())}):\n"
    at = file.offset(attention.last.lineno, 0)
    text = "".join([head, *body, result, "\n"])
    return Replace(file=file.name, begin=at, end=at, text=text)


def _text(file: SourceFile, node: ast.expr | ast.stmt, parts: dict[ast.expr, str]) -> str:
    """The text of code with parts of it named otherwise, indented by what the function adds."""
    begin, end = file.span(node)
    spans = sorted((file.span(part), name) for part, name in parts.items())
    pieces: list[str] = []
    done = begin
    for (first, last), name in spans:
        if begin <= first and last <= end:
            pieces += [file.text[done:first], name]
            done = last
    return "".join([*pieces, file.text[done:end]]).replace("\n", "\n    ")
