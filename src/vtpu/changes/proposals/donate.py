"""Donation of arguments whose memory an output can take."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from vtpu.analysis.program.argument_roles import tree_of
from vtpu.analysis.program.memory import MemoryItem
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.placing import behind
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import JitSite
from vtpu.changes.source.names import qualified, spelled
from vtpu.changes.source.plain_functions import plain_function
from vtpu.changes.source.uses_after import UseAfter, uses_after
from vtpu.findings.rules.memory.not_donated import donatable_items, dying
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.memory import AllocationKind

KIND = "donate"
_LEAST_SHARE = 0.001  # of the program's need
_NEARLY_ALL = 0.9  # of an argument: a donated array that no output takes is lost for nothing
_EQUINOX = re.compile(r"dynamic_\w*\['(first|rest)'\]")
_NNX = re.compile(r"\w+\.states\[")
_FIRST, _REST = "first", "rest"  # what `equinox.filter_jit` takes
_CAUTION = "the donated arrays cannot be used after the call"


class _NotKnown(Exception):
    """How donation is written there is not known, and why."""


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """One change: all arguments that could be donated whole, and are not used after the call."""
    sizes, partly = _whole(situation)
    for name in partly:
        reason = (
            f"only a part of {name} could be taken by an output: it cannot be donated by itself"
        )
        yield NotApplicable(kind=KIND, reason=reason)
    used = _used(situation, sizes)
    for use in used:
        reason = f"{use.parameter} is used after the call: `{use.text}` in line {use.line}"
        yield NotApplicable(kind=KIND, reason=reason)
    names = [n for n in sizes if n not in {u.parameter for u in used}]
    if not names:
        if not used and not partly:
            yield NotApplicable(kind=KIND, reason="no output could take an argument's memory")
        return
    try:
        edits = _edits(situation, names)
    except _NotKnown as reason:
        yield NotApplicable(kind=KIND, reason=f"{reason}: donate {', '.join(names)}")
        return
    what = ", ".join(_shown(n, situation.site) for n in names)
    yield Change(
        kind=KIND,
        title=f"donate {what}",
        numerics=Numerics.IDENTICAL,
        edits=edits,
        group=KIND,
        caution=_CAUTION,
        expected_bytes=sum(sizes[n] for n in names),
    )


def _whole(situation: Situation) -> tuple[dict[str, int], list[str]]:
    """The arguments of which outputs can take nearly all, with bytes; and those that they take a part of.

    By what the program says of its state or, where that is more, by what dies after its calls: the trial shows
    whether an argument is used after all.
    """
    program = situation.program
    dies = dying(situation.run, program) if situation.target.is_script else None
    ways = [donatable_items(program), *([donatable_items(program, dies)] if dies else [])]
    items = max(ways, key=lambda way: sum(i.bytes for i in way))
    totals: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    for item in _arguments(program):
        totals[_argument_of(item.name)] += item.bytes
    for item in items:
        sizes[_argument_of(item.name)] += item.bytes
    need = program.report.need_bytes or 0
    sizes = {n: b for n, b in sizes.items() if b >= _LEAST_SHARE * need}
    whole = {n: b for n, b in sizes.items() if b >= _NEARLY_ALL * totals[n]}
    return whole, [n for n in sizes if n not in whole]


def _arguments(program: ProgramSubject) -> list[MemoryItem]:
    hbm = program.report.usage.hbm if program.report.usage else None
    return [i for i in hbm.items if i.occupant.kind is AllocationKind.ARGUMENT] if hbm else []


def _argument_of(name: str) -> str:
    """The argument that a leaf belongs to. Equinox hands the first one and the others on as two trees."""
    match = _EQUINOX.match(name)
    return match[1] if match else tree_of(name)


def _used(situation: Situation, names: Iterable[str]) -> list[UseAfter]:
    """Which of the arguments are used after the call. Modules of nnx get their new arrays in the call."""
    site = situation.site
    if site is None or not situation.target.is_script:
        return []
    modules = {tree_of(i.name) for i in _arguments(situation.program) if _NNX.match(i.name)}
    found = {u.parameter: u for u in uses_after(site, _as_called(site))}
    if _jit_name(site).endswith("filter_jit"):
        found |= {_FIRST if n == _as_called(site)[0] else _REST: u for n, u in found.items()}
    return [found[n] for n in names if n in found and n not in modules]


def _edits(situation: Situation, names: Sequence[str]) -> tuple[Edit, ...]:
    site = situation.site
    if site is None:
        return _jitted_behind(situation, names)
    if _jit_name(site).endswith("filter_jit"):
        return (site.with_keyword("donate", _equinox_value(situation, names)),)
    there = site.keyword("donate_argnums")
    if there is not None:
        return (site.with_keyword("donate_argnums", _numbers(site, there, names)),)
    if site.function and site.function.args.vararg and site.function.args.vararg.arg in names:
        raise _NotKnown("it takes its arguments together, as `*args`")
    given = [*_literals(site.keyword("donate_argnames")), *names]
    value = repr(given[0]) if len(given) == 1 else f"({', '.join(map(repr, given))})"
    return (site.with_keyword("donate_argnames", value.replace("'", '"')),)


def _jitted_behind(situation: Situation, names: Sequence[str]) -> tuple[Edit, ...]:
    """`step = jax.jit(step, …)` behind a function that is jitted nowhere."""
    plain = plain_function(situation)
    if plain is None:
        raise _NotKnown("where the function is jitted was not found")
    file, function = plain
    jit, imports = spelled(file, "jax.jit")
    listed = ", ".join(f'"{n}"' for n in names)
    value = listed if len(names) == 1 else f"({listed})"
    line = f"{function.name} = {jit}({function.name}, donate_argnames={value})"
    return behind(file, function, "", "", line), *imports


def _jit_name(site: JitSite) -> str:
    node = site.node
    if isinstance(node, ast.Call) and qualified(site.file, node.func) == "functools.partial":
        node = node.args[0]
    return qualified(site.file, node.func if isinstance(node, ast.Call) else node)


def _equinox_value(situation: Situation, names: Sequence[str]) -> str:
    """Equinox donates all arguments, or all but the first."""
    every = {_argument_of(i.name) for i in _arguments(situation.program)}
    if _FIRST not in names:
        return '"all-except-first"'
    if _used(situation, every):
        raise _NotKnown(
            "`equinox.filter_jit` donates all arguments, and others are used after the call"
        )
    return '"all"'


def _shown(name: str, site: JitSite | None) -> str:
    """An argument's name; of Equinox's two trees what the user calls them."""
    first = _as_called(site)[:1] if site else ()
    return {_FIRST: "".join(first), _REST: "the other arguments"}.get(name) or name


def _numbers(site: JitSite, there: ast.expr, names: Sequence[str]) -> str:
    """The numbers of what is donated already, and of `names`."""
    positions = _positions(site)
    if not set(names) <= set(positions):
        raise _NotKnown("the positions of its parameters were not found")
    numbers = sorted({*_literals(there), *(positions.index(n) for n in names)})
    return f"({', '.join(map(str, numbers))}{',' * (len(numbers) == 1)})"


def _positions(site: JitSite) -> tuple[str, ...]:
    """The positional parameters that numbers of `jax.jit` count: without `self` of a bound method, and
    without what `functools.partial` has bound.
    """
    names = list(site.parameters)
    given = site.node.args[0] if isinstance(site.node, ast.Call) and site.node.args else None
    if _is_decorator(site) or given is None:
        return tuple(names)
    if isinstance(given, ast.Call) and qualified(site.file, given.func) == "functools.partial":
        bound = {k.arg for k in given.keywords}
        names = [n for n in names[len(given.args) - 1 :] if n not in bound]
        given = given.args[0]
    is_bound = isinstance(given, ast.Attribute) and names[:1] == ["self"]
    return tuple(names[1:] if is_bound else names)


def _as_called(site: JitSite) -> tuple[str, ...]:
    """The positional parameters as callers give them: of a decorated method without `self`."""
    names = _positions(site)
    return names[1:] if _is_decorator(site) and names[:1] == ("self",) else names


def _is_decorator(site: JitSite) -> bool:
    parent = site.file.parents.get(site.node)
    return isinstance(parent, ast.FunctionDef) and site.node in parent.decorator_list


def _literals(there: ast.expr | None) -> list[int | str]:
    """What a keyword lists; one value counts as a list of it."""
    if there is None:
        return []
    try:
        value = ast.literal_eval(there)
    except ValueError:
        raise _NotKnown(
            f"what it donates already, `{ast.unparse(there)}`, is not written out"
        ) from None
    return [value] if isinstance(value, int | str) else [*value]


PROPOSAL = Proposal(
    kind=KIND,
    what="`donate_argnames` for arguments whose memory an output can take.",
    applies="An output has the shape, type and sharding of an argument that is not donated, for all arrays "
    "of the argument; and the script does not use it after the call.",
    numerics="None: the results are the same bits.",
    propose=propose,
)
