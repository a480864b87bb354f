"""The loss and its gradients computed in bfloat16."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from vtpu.analysis.program.argument_roles import Role
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Helper, Import, Wrap
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.casting import cast_helper, cast_text
from vtpu.changes.rewriting.step_edits import first_lines
from vtpu.changes.situation import Situation
from vtpu.changes.source.gradients import Gradient, find_gradient
from vtpu.changes.source.names import loads_of
from vtpu.changes.source.scopes import free_variables
from vtpu.changes.source.state import read_state
from vtpu.program.element_types import ElementType

KIND = "activation-dtype"
_LEAST_SHARE = 0.05  # of the program's memory
_ROLES = (Role.FORWARD, Role.BACKWARD, Role.RECOMPUTED)

_HELPER = "in_bfloat16"
_SOURCE = '''
def in_bfloat16(function):
    """A function that computes in bfloat16: its float32 arguments are rounded, its results are float32."""

    def cast(tree, old, new):
        change = lambda a: a.astype(new) if getattr(a, "dtype", None) == old else a
        return jax.tree.map(change, tree)

    def rounded(*args, **kwargs):
        args, kwargs = cast((args, kwargs), jax.numpy.float32, jax.numpy.bfloat16)
        return cast(function(*args, **kwargs), jax.numpy.bfloat16, jax.numpy.float32)

    return rounded
'''


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change: around the loss."""
    size = _full_bytes(situation)
    if size is None:
        yield NotApplicable(
            kind=KIND, reason="no activations in float32 take a noticeable part of its memory"
        )
        return
    gradient = find_gradient(situation)
    if isinstance(gradient, str) or gradient.loss is None:
        reason = gradient if isinstance(gradient, str) else "the loss was not found"
        yield NotApplicable(kind=KIND, reason=reason)
        return
    yield Change(
        kind=KIND,
        title="loss and gradients computed in bfloat16",
        numerics=Numerics.DIFFERENT,
        edits=(*_around(gradient), *_batch_cast(situation, gradient)),
        group=KIND,
        caution="activations and gradients keep 8 bits of precision; sums over many values (the loss, softmax, "
        "norms) are best left in float32 within the model",
        expected_bytes=size / 2,
    )


def _around(gradient: Gradient) -> tuple[Edit, ...]:
    file, loss = gradient.file, gradient.loss
    assert loss is not None
    begin, end = file.span(loss)
    return (
        Import(file=file.name, statement="import jax"),
        Helper(file=file.name, name=_HELPER, source=_SOURCE),
        Wrap(file=file.name, begin=begin, end=end, before=f"{_HELPER}(", after=")"),
    )


def _batch_cast(situation: Situation, gradient: Gradient) -> tuple[Edit, ...]:
    """A batch in float32 that the loss does not get as an argument is rounded where the step begins."""
    site, state, loss = situation.site, read_state(situation), gradient.loss_function
    if site is None or state is None or loss is None or gradient.step is not site.function:
        return ()
    wide = {a.tree for a in state.batch if a.element_type is ElementType.F32}
    free = free_variables(gradient.file, loss)
    step = gradient.step
    names = [
        n for n in wide if free and isinstance(step, ast.FunctionDef) and loads_of(n, step.body)
    ]
    lines = first_lines(site, *(f"{name} = {cast_text(name)}" for name in sorted(names)))
    return (*cast_helper(site.file), *lines) if names and lines else ()


def _full_bytes(situation: Situation) -> int | None:
    """Bytes of float32 activations at the peak; None where they hardly count."""
    usage = situation.program.report.usage
    hbm = usage.hbm if usage else None
    if hbm is None:
        return None
    kinds = [i for i in hbm.at_peak() if i.role in _ROLES]
    found = sum(i.bytes for i in kinds if i.shape and i.shape.element_type is ElementType.F32)
    return found if found >= _LEAST_SHARE * hbm.total_bytes else None


PROPOSAL = Proposal(
    kind=KIND,
    what="The loss and its gradients computed in bfloat16 while parameters stay in float32 (a helper function "
    "around the loss rounds its arguments).",
    applies="Activations in float32 take a noticeable part of the memory, and the call of `jax.grad` or "
    "`jax.value_and_grad` is found.",
    numerics="Different by design: activations and gradients are rounded to 8 bits of precision.",
    propose=propose,
)
