"""Code of the forward pass that runs again and again: bodies of scans, blocks that loops call.

This is where `jax.checkpoint` goes: what one turn leaves for the backward pass is kept for all of them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from vtpu.analysis.source.files import SourceFile, SourceFiles
from vtpu.changes.source.call_sites import CallSite, call_sites
from vtpu.changes.source.differentiation import differentiated
from vtpu.changes.source.flax_blocks import flax_scan
from vtpu.changes.source.loops import Loop, loops_around
from vtpu.changes.source.saved_activations import Saved
from vtpu.findings.subjects import ProgramSubject

_MOST_AROUND = 2  # repeats around one activation: the innermost, and the next
#: Where functions that repeat another one take it: its position, and its name.
_BODIES = {
    "jax.lax.scan": (0, "f"),
    "jax.lax.map": (0, "f"),
    "jax.lax.fori_loop": (2, "body_fun"),
    "functools.reduce": (0, "function"),
}


class RepeatKind(StrEnum):
    """How the code is repeated."""

    BODY = "body"  # a function that is given to `scan`
    CALL = "call"  # calls of a function of the user's, in a loop or one after the other
    LOOP = "loop"  # what stands in the loop itself


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeat:
    """Code that is repeated, all in one file.

    `sites` are the calls: of `scan`, of the block; of a loop the expressions in it. `loop` is Python's, where
    there is one. `bytes` are those of the activations that are made in it, `turns` how often it may run as far
    as their shapes tell. `is_innermost`: no other repeat is in it.
    """

    kind: RepeatKind
    file: SourceFile
    sites: tuple[CallSite, ...]
    loop: Loop | None = None
    bytes: int = 0
    product_bytes: int = 0
    turns: int | None = None
    is_innermost: bool = True

    @property
    def line(self) -> int:
        """The line that it begins in."""
        return self.loop.lineno if self.loop else min(s.node.lineno for s in self.sites)

    @property
    def body(self) -> ast.expr | None:
        """The function that a scan of JAX's repeats."""
        node = self.sites[0].node
        return body_of(self.file, node) if self.kind is RepeatKind.BODY else None


def body_of(file: SourceFile, node: ast.expr) -> ast.expr | None:
    """The function that a call of `scan` and the like repeats; None of another call."""
    called = CallSite(file=file, node=node).called
    if not isinstance(node, ast.Call) or called not in _BODIES:
        return None
    position, name = _BODIES[called]
    given = next((k.value for k in node.keywords if k.arg == name), None)
    if given is None and len(node.args) > position:
        given = node.args[position]
    return None if isinstance(given, ast.Starred) else given


def find_repeats(saved: Iterable[Saved], files: SourceFiles, program: str) -> list[Repeat]:
    """The repeats that activations are made in, those with most bytes first. `program` is its function."""
    stacks = [(s, differentiated(call_sites(files, s.frames), program)) for s in saved]
    callers = _callers(sites for _, sites in stacks)
    found: dict[tuple[object, ...], list[tuple[Saved, Repeat]]] = defaultdict(list)
    for activation, sites in stacks:
        for key, repeat in _around(sites, callers):
            found[key].append((activation, repeat))
    return sorted((_joined(members) for members in found.values()), key=lambda r: -r.bytes)


def group_of(repeat: Repeat) -> str:
    """What excludes other checkpoints at the same place: of nested loops one is chosen."""
    if repeat.loop is None:
        return f"checkpoint {repeat.file.name}:{repeat.line}"
    outermost = [repeat.loop, *loops_around(repeat.file, repeat.loop)][-1]
    return f"checkpoint {repeat.file.name}:{outermost.lineno}"


def program_function(program: ProgramSubject) -> str:
    """The name of the function that a program was compiled from."""
    name = program.name.removeprefix("jit_")
    return "<lambda>" if name.strip("_") == "lambda" else name


def _callers(stacks: Iterable[list[CallSite]]) -> Mapping[tuple[str, str], dict[object, CallSite]]:
    """The calls of each of the user's functions, by file and name."""
    callers: dict[tuple[str, str], dict[object, CallSite]] = defaultdict(dict)
    for site in (s for sites in stacks for s in sites if s.callee):
        callers[site.file.name, site.callee][site.key] = site
    return callers


def _around(
    sites: list[CallSite], callers: Mapping[tuple[str, str], dict[object, CallSite]]
) -> list[tuple[tuple[object, ...], Repeat]]:
    """The repeats that an activation is made in, innermost first."""
    found: list[tuple[tuple[object, ...], Repeat]] = []
    for site in sites:
        for key, repeat in _at(site, callers):
            if key not in [k for k, _ in found]:
                found.append((key, repeat))
        if len({r.line for _, r in found}) >= _MOST_AROUND:
            break
    innermost = found[0][1].line if found else 0
    return [(k, replace(r, is_innermost=r.line == innermost)) for k, r in found]


def _at(
    site: CallSite, callers: Mapping[tuple[str, str], dict[object, CallSite]]
) -> Iterator[tuple[tuple[object, ...], Repeat]]:
    """What is repeated at a call: the body of a scan, a loop around it, the same call elsewhere."""
    file = site.file
    if body_of(file, site.node) is not None or flax_scan(site) is not None:
        yield (site.key, "body"), Repeat(kind=RepeatKind.BODY, file=file, sites=(site,))
        return
    loops = loops_around(file, site.node)
    if loops:
        loop = loops[0]
        place = (file.name, loop.lineno)
        if site.callee and isinstance(site.node, ast.Call):
            yield (place, "call"), Repeat(kind=RepeatKind.CALL, file=file, sites=(site,), loop=loop)
        yield (place, "loop"), Repeat(kind=RepeatKind.LOOP, file=file, sites=(site,), loop=loop)
        return
    others = callers.get((file.name, site.callee), {}) if isinstance(site.node, ast.Call) else {}
    if len(others) > 1 or (others and _is_in_comprehension(site)):
        calls = tuple(others.values())
        yield (file.name, site.callee), Repeat(kind=RepeatKind.CALL, file=file, sites=calls)


def _is_in_comprehension(site: CallSite) -> bool:
    kinds = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.FunctionDef, ast.Lambda)
    around = site.file.enclosing(site.node, *kinds)
    return bool(around) and isinstance(around[0], ast.ListComp | ast.GeneratorExp | ast.DictComp)


def _joined(members: list[tuple[Saved, Repeat]]) -> Repeat:
    """One repeat of all activations that are made in it."""
    sites = {s.key: s for _, repeat in members for s in repeat.sites}
    largest = max((s for s, _ in members), key=lambda s: s.bytes)
    return replace(
        members[0][1],
        sites=_outermost(sites.values()),
        bytes=sum(s.bytes for s, _ in members),
        product_bytes=sum(s.bytes for s, _ in members if s.is_product),
        turns=largest.dims[0] if largest.dims else None,
        is_innermost=any(r.is_innermost for _, r in members),
    )


def _outermost(sites: Iterable[CallSite]) -> tuple[CallSite, ...]:
    """Calls in the order of the file, without those that stand in another one's arguments."""
    given = sorted(sites, key=lambda s: s.key)
    inside = {id(n) for s in given for n in ast.walk(s.node) if n is not s.node}
    return tuple(s for s in given if id(s.node) not in inside)
