"""Edits that give an argument of the step another value in a script, once or at each call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from vtpu.changes.edits import Edit, Replace, Wrap
from vtpu.changes.rewriting.placing import before, behind
from vtpu.changes.source.names import bound, called
from vtpu.changes.source.state import Part
from vtpu.changes.source.statements import stands_alone
from vtpu.changes.source.step_calls import (
    StepCall,
    assigned_value,
    binding,
    is_bound_here,
    module_binding,
)

#: Calls that put one host array on the default device.
_TO_DEVICE = ("jax.device_put", "jax.numpy.asarray", "jax.numpy.array")


def state_replaced(
    call: StepCall, name: str, new: Callable[[str], str], *, early: bool
) -> tuple[Edit, ...] | None:
    """The argument of a name replaced once, before the loop that calls the step; None: it is not clear where.

    `new` makes the new value's text of the old one's. `early`: right where it gets its value, so that what is
    made of it follows; otherwise directly before the loop.
    """
    value = call.argument(name)
    if value is None:
        return _starred_replaced(call, name, new)
    if not isinstance(value, ast.Name | ast.Attribute | ast.Subscript):
        return None
    text = call.file.source(value)
    line = f"{text} = {new(text)}"
    if is_bound_here(call, value):
        statement = binding(call, value, for_all=True) if early else None
    else:
        statement = module_binding(call.file, text)
        if statement is None:
            return None
    if statement is not None and stands_alone(call.file, statement):
        return (behind(call.file, statement, line),)
    return (before(call.file, call.first, line),) if stands_alone(call.file, call.first) else None


def parts_replaced(
    call: StepCall, parts: Iterable[Part], helper: str, more: str, *, early: bool
) -> tuple[Edit, ...] | None:
    """Parts of the state, each given to a helper function with `more`, once before the loop; None: it is not
    clear where.
    """
    edits: list[Edit] = []
    for part in parts:
        given = f"{more}{part.below_text}"
        found = state_replaced(
            call, part.tree, lambda text, given=given: f"{helper}({text}, {given})", early=early
        )
        if found is None:
            return None
        edits += found
    return tuple(edits)


def _starred_replaced(
    call: StepCall, name: str, new: Callable[[str], str]
) -> tuple[Edit, ...] | None:
    """One of the arrays of `step(*arrays)`, replaced in a list of them."""
    star = call.star()
    if star is None or name not in call.parameters or not stands_alone(call.file, call.first):
        return None
    text, first = star[0], call.parameters.index(name) - star[1]
    if first < 0:
        return None
    line = f"{text} = [*{text}[:{first}], {new(f'{text}[{first}]')}, *{text}[{first + 1} :]]"
    return (before(call.file, call.first, line),)


def batch_replaced(
    call: StepCall, name: str, new: Callable[[str], str], place: str
) -> tuple[Edit, ...] | None:
    """A batch placed with the sharding `place` (code) where it is sent to the devices, or at the call.

    `new` makes the placed value's text of the old one's.
    """
    value = call.argument(name)
    if value is None:
        return _starred_replaced(call, name, new)
    made = binding(call, value, for_all=False)
    sent = _sent(call, assigned_value(made)) if made is not None else None
    if sent is not None:
        return (_with_place(call, sent, place),)
    is_constant = made is not None and binding(call, value, for_all=True) is made
    if is_constant and made is not None and stands_alone(call.file, made):
        text = call.file.source(value)
        if isinstance(value, ast.Name) and text not in bound([call.first]):
            return (behind(call.file, made, f"{text} = {new(text)}"),)
    begin, end = call.file.span(value)
    front, back = new("\0").split("\0")
    return (Wrap(file=call.file.name, begin=begin, end=end, before=front, after=back),)


def _sent(call: StepCall, value: ast.expr | None) -> ast.Call | None:
    """The call that sends a batch to the default device, or to a place of its own."""
    if not isinstance(value, ast.Call) or called(call.file, value) not in _TO_DEVICE:
        return None
    is_put = called(call.file, value) == "jax.device_put"
    most = 2 if is_put else 1
    is_plain = 1 <= len(value.args) <= most and not value.keywords
    return value if is_plain else None


def _with_place(call: StepCall, sent: ast.Call, place: str) -> Edit:
    begin, end = call.file.span(sent)
    put = (
        "jax.device_put"
        if called(call.file, sent) != "jax.device_put"
        else call.file.source(sent.func)
    )
    text = f"{put}({call.file.source(sent.args[0])}, {place})"
    return Replace(file=call.file.name, begin=begin, end=end, text=text)
