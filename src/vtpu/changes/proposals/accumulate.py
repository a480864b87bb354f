"""Gradients of a batch, summed over parts of it that are computed one after the other."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vtpu.analysis.program.argument_roles import Argument, Role, judge_roles
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Helper, Import, Replace, Wrap
from vtpu.changes.goal import Goal
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.gradients import Gradient, find_gradient
from vtpu.changes.source.jit_sites import Function
from vtpu.changes.source.losses import Reduction, depending, has_only_means, read_in, reduction_of
from vtpu.changes.source.names import loads_of
from vtpu.changes.source.scopes import free_variables
from vtpu.changes.source.state import Batch, State, find_batch, read_state
from vtpu.program.shapes import ArrayShape

KIND = "accumulate"
_PARTS = (2, 4, 8)
_LEAST_SHARE = 0.05  # of the program's memory that activations take; less is not worth a loop
_TELLING = 64  # smaller batches have the size of much else: heads, experts, layers
_ACTIVATIONS = (Role.FORWARD, Role.BACKWARD, Role.RECOMPUTED)

_HELPER = "accumulated"
_SOURCE = '''
def accumulated(gradients, parts, batch, mean=True):
    """A gradient function that takes the arguments `batch` in so many parts, one after the other.

    Rows of a part are spread over the batch, so that each device of a mesh has its share of every part. Numbers
    are averaged over the parts, as they are where the loss is a mean of the batch; integers are summed.
    """

    def split(array):
        return array.reshape(-1, parts, *array.shape[1:]).swapaxes(0, 1)

    def function(*args):
        def of_part(rows):
            given = list(args)
            for number, value in zip(batch, rows):
                given[number] = value
            return gradients(*given)

        def add(total, rows):
            return jax.tree.map(jax.numpy.add, total, of_part(rows)), None

        rows = [jax.tree.map(split, args[number]) for number in batch]
        shapes = jax.eval_shape(of_part, jax.tree.map(lambda array: array[0], rows))
        if shapes != jax.eval_shape(gradients, *args):
            raise ValueError("a result has rows of the batch and cannot be summed over its parts")
        total = jax.tree.map(lambda a: jax.numpy.zeros(a.shape, a.dtype), shapes)
        total, _ = jax.lax.scan(add, total, rows)
        divisor = parts if mean else 1
        is_whole = lambda a: jax.numpy.issubdtype(a.dtype, jax.numpy.integer)
        return jax.tree.map(lambda a: a if is_whole(a) else a / divisor, total)

    return function
'''


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Plan:
    """What the gradient function takes of the batch: by the arguments `numbers`, some of which are added.

    `names` are those that the loss has for the batch. `added` are names that it took from around it.
    """

    gradient: Gradient
    numbers: tuple[int, ...]
    names: frozenset[str]
    added: tuple[str, ...]


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """In 2, 4 and 8 parts."""
    if situation.goal is Goal.SPEED:
        yield NotApplicable(kind=KIND, reason="it saves memory, and no time")
        return
    state = read_state(situation)
    batch = find_batch(state) if state else "the program has no arguments that are known"
    gradient = find_gradient(situation)
    if state is None or isinstance(batch, str) or isinstance(gradient, str):
        yield NotApplicable(kind=KIND, reason=gradient if isinstance(gradient, str) else str(batch))
        return
    plan = _plan(gradient, batch)
    saved = _activations(situation)
    if isinstance(plan, str) or saved is None:
        reason = plan if isinstance(plan, str) else "activations take next to nothing of its memory"
        yield NotApplicable(kind=KIND, reason=reason)
        return
    parts = [n for n in _PARTS if batch.size % (n * batch.cut) == 0]
    if not parts:
        yield NotApplicable(
            kind=KIND, reason=f"a batch of {batch.size} on {batch.cut} devices has no equal parts"
        )
    for number in parts:
        yield _change(situation, state, batch, plan, number, saved)


def _change(
    situation: Situation, state: State, batch: Batch, plan: _Plan, parts: int, saved: int
) -> Change:
    gradient = plan.gradient
    reduction = reduction_of(gradient.file, gradient.loss_function, set(plan.names))
    doubts = list(_doubts(situation, state, batch, plan, reduction))
    return Change(
        kind=KIND,
        title=f"gradients of the batch in {parts} parts",
        numerics=Numerics.DIFFERENT if doubts else Numerics.TOLERANCE,
        edits=_edits(plan, parts, is_mean=reduction is not Reduction.SUM),
        group=KIND,
        caution="; ".join([*doubts, "sums over the batch are made in another order"]),
        expected_bytes=saved * (1 - 1 / parts),
    )


def _doubts(
    situation: Situation, state: State, batch: Batch, plan: _Plan, reduction: Reduction
) -> Iterable[str]:
    """What the parts may change beyond rounding."""
    if reduction is Reduction.UNKNOWN:
        yield "the loss is taken for a mean over the batch, which could not be told"
    if any(a.role is Role.KEY for a in state.arrays):
        yield "all parts draw from the same random key"
    if plan.gradient.has_aux and not has_only_means(
        plan.gradient.file, plan.gradient.loss_function, set(plan.names)
    ):
        yield "auxiliary results are averaged over the parts (integers summed)"
    if _compares_examples(situation, state, batch):
        yield "the loss seems to compare examples of the batch with one another: each part sees only its own"


def _edits(plan: _Plan, parts: int, *, is_mean: bool) -> tuple[Edit, ...]:
    gradient, file = plan.gradient, plan.gradient.file
    begin, end = file.span(gradient.made)
    listed = repr(plan.numbers)
    after = f", {parts}, {listed})" if is_mean else f", {parts}, {listed}, mean=False)"
    return (
        Import(file=file.name, statement="import jax"),
        Helper(file=file.name, name=_HELPER, source=_SOURCE),
        Wrap(file=file.name, begin=begin, end=end, before=f"{_HELPER}(", after=after),
        *_added(plan),
    )


def _added(plan: _Plan) -> Iterable[Edit]:
    """The batch as arguments of a loss that takes it from around itself."""
    if not plan.added:
        return
    file, applied = plan.gradient.file, plan.gradient.applied
    loss = plan.gradient.loss_function
    assert loss is not None
    more = ", " + ", ".join(plan.added)
    last = [*loss.args.posonlyargs, *loss.args.args][-1]
    behind = last.annotation or last
    at = file.offset(behind.end_lineno or behind.lineno, behind.end_col_offset or 0)
    yield Replace(file=file.name, begin=at, end=at, text=more)
    _, at = file.span(applied.args[-1])
    yield Replace(file=file.name, begin=at, end=at, text=more)


def _plan(gradient: Gradient, batch: Batch) -> _Plan | str:
    """Which arguments of the gradient function have the batch, or why that is not clear."""
    step = gradient.step
    if step is None:
        return "the gradients are not computed in a function of the file"
    if gradient.applied.keywords or any(isinstance(a, ast.Starred) for a in gradient.applied.args):
        return f"the gradient function's arguments at line {gradient.applied.lineno} are not all plain ones"
    names = depending(step, _batch_names(step, batch))
    given = gradient.applied.args
    numbers = tuple(
        i for i, a in enumerate(given) if i not in gradient.numbers and read_in(a) & names
    )
    if numbers:
        return _Plan(gradient=gradient, numbers=numbers, names=_inner(gradient, numbers), added=())
    return _closed_over(gradient, names)


def _batch_names(step: ast.FunctionDef, batch: Batch) -> set[str]:
    """The parameters of the function around that have the batch: by the program's names, or by their own."""
    names = [a.arg for a in (*step.args.posonlyargs, *step.args.args, *step.args.kwonlyargs)]
    own = set(names) & set(batch.trees)
    if own:
        return own
    roles = judge_roles([Argument(name, None, False) for name in names])
    return {n for n, role in zip(names, roles, strict=True) if role is Role.BATCH}


def _inner(gradient: Gradient, numbers: Sequence[int]) -> frozenset[str]:
    """The loss's own names of the batch."""
    loss = gradient.loss_function
    names = [a.arg for a in (*loss.args.posonlyargs, *loss.args.args)] if loss else []
    return frozenset(names[n] for n in numbers if n < len(names))


def _closed_over(gradient: Gradient, names: set[str]) -> _Plan | str:
    """A loss that takes the batch from the function around it gets it as arguments."""
    file, loss, step = gradient.file, gradient.loss_function, gradient.step
    where = f"the loss at line {gradient.made.lineno}"
    if loss is None or step is None or not gradient.applied.args:
        return f"{where} does not take the batch as an argument"
    free = sorted(free_variables(file, loss) & names)
    if not free:
        return f"{where} does not read the batch"
    if not _can_take_more(loss) or _uses(file.tree, loss, gradient) != 1:
        return f"{where} takes the batch from the function around it: make {', '.join(free)} its arguments"
    first = len(gradient.applied.args)
    numbers = tuple(range(first, first + len(free)))
    return _Plan(gradient=gradient, numbers=numbers, names=frozenset(free), added=tuple(free))


def _can_take_more(loss: Function) -> bool:
    """Whether further positional parameters can stand behind its own."""
    given = loss.args
    plain = [*given.posonlyargs, *given.args]
    return bool(plain) and not given.defaults and not given.vararg


def _uses(tree: ast.Module, loss: Function, gradient: Gradient) -> int:
    """How often the loss is used; one that has no name is used once."""
    if isinstance(loss, ast.Lambda):
        return 1
    scopes = gradient.file.enclosing(loss, ast.FunctionDef)
    return len(loads_of(loss.name, [scopes[0] if scopes else tree]))


def _activations(situation: Situation) -> int | None:
    """Bytes of activations and gradients at the peak; None where they hardly count."""
    usage = situation.program.report.usage
    hbm = usage.hbm if usage else None
    if hbm is None:
        return None
    found = sum(i.bytes for i in hbm.at_peak() if i.role in _ACTIVATIONS)
    return found if found >= _LEAST_SHARE * hbm.total_bytes else None


def _compares_examples(situation: Situation, state: State, batch: Batch) -> bool:
    """Whether the program has matrices of the batch by the batch, and nothing else has its size."""
    module = situation.program.module
    others = {n for a in state.arrays for n in a.shape[a in batch.arrays :]}
    local = batch.size // batch.cut
    if module is None or local < _TELLING or others & {batch.size, local}:
        return False
    shapes = [i.shape for i in module.by_id.values() if isinstance(i.shape, ArrayShape)]
    return any(len(s.dims) == 2 and set(s.dims) <= {batch.size, local} for s in shapes)


PROPOSAL = Proposal(
    kind=KIND,
    what="The batch in 2, 4 or 8 parts, whose gradients are computed one after the other and averaged (a "
    "helper function around the gradient function that scans the parts).",
    applies="The call of `jax.grad` or `jax.value_and_grad` and the batch among its arguments are found, and "
    "activations take a noticeable part of the memory. A loss inside of the step that reads the batch from "
    "around it gets it as arguments.",
    numerics="Equal within tolerance where the loss is a mean or a sum over the batch; different by design "
    "where that cannot be told, where random keys are drawn from, where there are auxiliary results, or where "
    "examples are compared with one another.",
    propose=propose,
)
