"""Arguments whose size changes, padded to one of a few sizes, so that few programs do for all."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from vtpu.analysis.run.buckets import Buckets, choose_buckets
from vtpu.analysis.run.programs import ProgramSummary
from vtpu.analysis.run.recompiles import Cause, Recompile, Varying
from vtpu.analysis.run.shape_patterns import Pattern, shapes_of
from vtpu.analysis.source.files import SourceFile
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit, Helper, Wrap
from vtpu.changes.proposal import Proposal
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import JitSite, called_on, site_of
from vtpu.changes.source.names import fresh, spelled
from vtpu.changes.source.step_calls import call_on
from vtpu.findings.compiles import because_of, python_name
from vtpu.units import counted

KIND = "buckets"
_OTHER_PATTERNS = {
    Pattern.CHANGING: "is called with several sizes that change",
    Pattern.GROWING: "is called with a size that grows from call to call: make the array of its final size and "
    "write into it (`jax.lax.dynamic_update_slice`)",
    Pattern.LAST_BATCH: "has a smaller last batch: leave it out, or pad the data",
    Pattern.BUCKETS: "is called with few sizes already",
    Pattern.OTHER: "is called with shapes that differ in more than a size",
}
_HELPER = '''
def {name}(array, axis, sizes):
    """The array with zeros behind it along an axis, up to the next of the sizes; a longer one as it is."""
    size = next((s for s in sizes if s >= array.shape[axis]), array.shape[axis])
    widths = [(0, size - length if number == axis else 0) for number, length in enumerate(array.shape)]
    return {np}.pad(array, widths) if isinstance(array, {np}.ndarray) else {jnp}.pad(array, widths)
'''


class _NotUnderstood(Exception):
    """The call cannot be edited, and why."""


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change for each function of which sizes change from call to call."""
    again = because_of(situation.run, Cause.SHAPE) if situation.target.is_script else []
    found, others = False, list[str]()
    for function, programs in again:
        shapes = shapes_of(function, programs, situation.run.recording)
        if shapes.is_operation or shapes.varying is None or shapes.pattern is not Pattern.CHANGING:
            if not shapes.is_operation:
                others.append(f"{python_name(function.name)} {_OTHER_PATTERNS[shapes.pattern]}")
            continue
        found = True
        buckets = choose_buckets(shapes.calls)
        try:
            yield _change(situation, function, programs, shapes.varying, buckets)
        except _NotUnderstood as why:
            sizes = ", ".join(map(str, buckets.sizes))
            name = python_name(function.name)
            yield NotApplicable(kind=KIND, reason=f"{name} could be padded to {sizes}, but {why}")
    if not found:
        reason = "; ".join(others) or "no function is called with one size that changes"
        yield NotApplicable(kind=KIND, reason=reason)


def _change(
    situation: Situation,
    function: ProgramSummary,
    again: list[Recompile],
    varying: Varying,
    buckets: Buckets,
) -> Change:
    line = again[0].compilation.line
    file = situation.files.get(line.file)
    if file is None:
        raise _NotUnderstood(f"{line.file} cannot be read")
    arguments = _arguments(situation, function, varying)
    site = _site(file, line.line, function)
    call = call_on(file, line.line, site) if site else None
    given = [(call.argument(name) if call else None, axis) for name, axis in arguments]
    if not given or any(value is None for value, _ in given):
        raise _NotUnderstood(f"its call in line {line.line} could not be taken apart")
    sizes = ", ".join(map(str, buckets.sizes))
    names = ", ".join(name for name, _ in arguments)
    kinds = counted(len(function.compilations), "program")
    return Change(
        kind=KIND,
        title=f"pad {names} of {python_name(function.name).strip('`')} to {sizes}",
        numerics=Numerics.DIFFERENT,
        edits=tuple(_edits(file, [(v, axis) for v, axis in given if v is not None], buckets)),
        group=f"{KIND} {function.name}",
        caution=f"zeros stand behind what is given ({buckets.padding:.0%} more for {kinds} less often compiled): mask "
        "them where the function sums, averages or normalises over that dimension, and cut results back",
    )


def _arguments(
    situation: Situation, function: ProgramSummary, varying: Varying
) -> list[tuple[str, int]]:
    """The function's parameters with the size, and the dimension that has it."""
    module = situation.run.times.module(function.compilations[0].program)
    parameters = module.parameters() if module else ()
    found = [(parameters[n].op_name, axis) for n, axis in varying.places if n < len(parameters)]
    trees = [name for name, _ in found if not name.isidentifier()]
    if trees:
        raise _NotUnderstood(
            f"{', '.join(trees)} is inside of an argument: pad it where it is made"
        )
    return found


def _site(file: SourceFile, line: int, function: ProgramSummary) -> JitSite | None:
    names = [*called_on(file, line), function.name.removeprefix("jit_")]
    return next((site for name in names if (site := site_of(file, name))), None)


def _edits(file: SourceFile, given: list[tuple[ast.expr, int]], buckets: Buckets) -> Iterable[Edit]:
    name = fresh(file, "pad_to_bucket")
    (np, np_imports), (jnp, jnp_imports) = spelled(file, "numpy"), spelled(file, "jax.numpy")
    yield from (*np_imports, *jnp_imports)
    yield Helper(file=file.name, name=name, source=_HELPER.format(name=name, np=np, jnp=jnp))
    for value, axis in given:
        begin, end = file.span(value)
        after = f", {axis}, {buckets.sizes})"
        yield Wrap(file=file.name, begin=begin, end=end, before=f"{name}(", after=after)


PROPOSAL = Proposal(
    kind=KIND,
    what="Arguments whose size changes from call to call are padded with zeros to one of at most four sizes.",
    applies="A script calls a jitted function with one size that takes many values, and the arrays that have it are "
    "arguments of the call themselves.",
    numerics="Different by design, unless the function masks what is padded.",
    propose=propose,
)
