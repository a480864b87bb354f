"""What `jax.debug.print` shows of a large array: one number of it, or nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Wrap
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.placing import without
from vtpu.changes.situation import Situation
from vtpu.changes.source.host_calls import HostCall, host_calls
from vtpu.changes.source.names import called, spelled
from vtpu.changes.source.statements import stands_alone

KIND = "debug-print"
_LEAST = 64 << 10  # bytes: who prints less reads it
_OPTIONS = ("ordered", "partitioned", "skip_format_check")


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """For each line that prints a large array: print its mean, or do not print."""
    calls = host_calls((situation.program, *situation.run.programs))
    if not calls:
        yield NotApplicable(kind=KIND, reason="the program calls no function on the host")
    for call in calls:
        file = situation.files.get(call.line.file)
        node = _print_on(file, call.line.line) if file else None
        if file is None or node is None:
            reason = (
                f"{call.line} calls the host ({call.primitive}): the program may need what it does"
            )
            yield NotApplicable(kind=KIND, reason=reason)
        elif call.bytes < _LEAST:
            yield NotApplicable(kind=KIND, reason=f"{call.line} prints little")
        else:
            yield from _changes(file, node, call)


def _print_on(file: SourceFile, line: int) -> ast.Call | None:
    calls = [n for n in file.on_line(line, ast.Call) if called(file, n) == "jax.debug.print"]
    return calls[0] if len(calls) == 1 and isinstance(calls[0], ast.Call) else None


def _changes(file: SourceFile, node: ast.Call, call: HostCall) -> Iterable[Change]:
    edits = tuple(_means(file, node))
    if edits:
        yield _change(
            f"print the mean only in {call.line}", edits, call, "it shows one number of each array"
        )
    statement = file.parents.get(node)
    if isinstance(statement, ast.Expr) and stands_alone(file, statement):
        yield _change(
            f"without the print in {call.line}",
            (without(file, statement),),
            call,
            "it shows nothing",
        )


def _means(file: SourceFile, node: ast.Call) -> Iterable[Edit]:
    """The mean of each value that is not written as a number or computed as one."""
    mean, imports = spelled(file, "jax.numpy.mean")
    values = [*node.args[1:], *(k.value for k in node.keywords if k.arg not in _OPTIONS)]
    for value in values:
        if isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp):
            begin, end = file.span(value)
            yield Wrap(file=file.name, begin=begin, end=end, before=f"{mean}(", after=")")
            yield from imports


def _change(title: str, edits: tuple[Edit, ...], call: HostCall, caution: str) -> Change:
    return Change(
        kind=KIND,
        title=title,
        numerics=Numerics.DIFFERENT,
        edits=edits,
        group=f"{KIND} {call.line}",
        caution=caution,
        expected_bytes=call.bytes,
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="`jax.debug.print` of a large array shows its mean, or is left out.",
    applies="A program hands 64 KiB or more to the host by `jax.debug.print`. Other callbacks may do what "
    "the program needs, and are left.",
    numerics="The program computes the same; what it shows is different by design.",
    propose=propose,
)
