"""Checkpoints put around repeated code, and those that are there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Keyword, Replace, Wrap
from vtpu.changes.rewriting.loop_bodies import NoFunction, as_function
from vtpu.changes.rewriting.policies import Policy
from vtpu.changes.source.call_sites import CallSite, made_by
from vtpu.changes.source.flax_blocks import (
    OtherModule,
    flax_module_call,
    flax_scan,
    remat_module_call,
    remat_scanned,
)
from vtpu.changes.source.loops import Loop
from vtpu.changes.source.names import qualified, spelled
from vtpu.changes.source.repeats import Repeat, RepeatKind

_CHECKPOINTS = ("checkpoint", "remat", "filter_checkpoint")
_LIBRARIES = ("jax", "flax", "equinox", "haiku")
_LEAVES = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


class NotUnderstood(Exception):
    """Code that no checkpoint can be put around, and why."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """A checkpoint that is there: a call of `jax.checkpoint` or `nnx.remat`, or a decorator.

    `call` is where its keywords are, None of a bare decorator, `node` the whole expression.
    """

    file: SourceFile
    node: ast.expr
    decorated: ast.FunctionDef | None = None

    @property
    def what(self) -> str:
        """What it is around, as it is written."""
        if self.decorated:
            return self.decorated.name
        argument = self._argument
        return self.file.source(argument).partition("\n")[0] if argument else "a function"

    @property
    def policy(self) -> ast.expr | None:
        """Its policy; None: it keeps nothing."""
        keywords = self.node.keywords if isinstance(self.node, ast.Call) else []
        return next((k.value for k in keywords if k.arg == "policy"), None)

    @property
    def policy_name(self) -> str:
        """The last part of its policy's name; empty where it keeps nothing."""
        there = self.policy
        function = there.func if isinstance(there, ast.Call) else there
        name = qualified(self.file, function).rpartition(".")[2] if function else ""
        return "" if name == "nothing_saveable" else name or "?" * (function is not None)

    @property
    def _argument(self) -> ast.expr | None:
        return self.node.args[0] if isinstance(self.node, ast.Call) and self.node.args else None

    def with_policy(self, policy: Policy) -> tuple[Edit, ...]:
        """The edits that give it another policy."""
        text, imports = policy.in_file(self.file)
        name, _, value = text.partition("=")
        there = self.policy
        if there is not None:
            begin, end = self.file.span(there)
            changed = Replace(file=self.file.name, begin=begin, end=end, text=value or "None")
            return changed, *imports
        begin, end = self.file.span(self.node)
        is_call = isinstance(self.node, ast.Call)
        keyword = Keyword(
            file=self.file.name, begin=begin, end=end, is_call=is_call, name=name, value=value
        )
        return keyword, *imports

    def removed(self) -> tuple[Edit, ...] | None:
        """The edits that take it away; None: it is written in a way that leaves nothing behind."""
        if self.decorated is not None:
            first, last = self.node.lineno, (self.node.end_lineno or self.node.lineno) + 1
            begin, end = self.file.offset(first, 0), self.file.offset(last, 0)
            return (Replace(file=self.file.name, begin=begin, end=end, text=""),)
        if self._argument is None:
            return None
        begin, end = self.file.span(self.node)
        inside, behind = self.file.span(self._argument)
        before = Replace(file=self.file.name, begin=begin, end=inside, text="(")
        after = Replace(file=self.file.name, begin=behind, end=end, text=")")
        return before, after


def checkpoints_in(file: SourceFile) -> Iterator[Checkpoint]:
    """The checkpoints of a file."""
    decorators: set[int] = set()
    for function in (n for n in ast.walk(file.tree) if isinstance(n, ast.FunctionDef)):
        for decorator in function.decorator_list:
            decorators.add(id(decorator))
            if _decorates(file, decorator):
                yield Checkpoint(file=file, node=decorator, decorated=function)
    for call in (n for n in ast.walk(file.tree) if isinstance(n, ast.Call)):
        is_one = is_checkpoint_name(qualified(file, call.func)) and bool(call.args)
        if is_one and id(call) not in decorators:
            yield Checkpoint(file=file, node=call)


def is_checkpoint_name(name: str) -> bool:
    """Whether a full name is that of a checkpoint, `jax.checkpoint` or `flax.nnx.remat`."""
    library, _, function = name.rpartition(".")
    return function in _CHECKPOINTS and library.partition(".")[0] in _LIBRARIES


def has_checkpoint(repeat: Repeat) -> bool:
    """Whether there is one around repeated code."""
    if repeat.kind is RepeatKind.BODY:
        return repeat.body is not None and is_made_by_checkpoint(repeat.file, repeat.body)
    nodes = [s.node for s in repeat.sites if isinstance(s.node, ast.Call)]
    return any(is_made_by_checkpoint(repeat.file, n.func) for n in nodes)


def with_checkpoint(repeat: Repeat, policy: Policy) -> tuple[Edit, ...]:
    """The edits that put a checkpoint around repeated code.

    Raises:
        NotUnderstood: it is written in a way that this does not know.
    """
    try:
        if repeat.kind is RepeatKind.BODY:
            return _around_body(repeat, policy)
        if repeat.kind is RepeatKind.LOOP and repeat.loop is not None:
            return _around_loop(repeat, repeat.loop, policy)
        return tuple(edit for site in repeat.sites for edit in _around_call(site, policy))
    except NoFunction as reason:
        raise NotUnderstood(f"the loop cannot become a function: {reason}") from None
    except OtherModule as reason:
        raise NotUnderstood(str(reason)) from None


def checkpoint_around(
    file: SourceFile,
    function: ast.expr,
    policy: Policy,
    *,
    is_in_scan: bool = False,
    checkpoint: str = "jax.checkpoint",
) -> tuple[Edit, ...]:
    """A function under a checkpoint. In a scan nothing has to be kept from being computed once only."""
    name, options, imports = _spelled(file, policy, is_in_scan=is_in_scan, checkpoint=checkpoint)
    begin, end = file.span(function)
    wrap = Wrap(file=file.name, begin=begin, end=end, before=f"{name}(", after=f"{options})")
    return wrap, *imports


def _around_call(site: CallSite, policy: Policy) -> tuple[Edit, ...]:
    """A call as `jax.checkpoint(lambda: block(layer, x, cfg))()`.

    What it takes is seen from inside, so that it need not be arrays.
    """
    file, node = site.file, site.node
    if any(isinstance(n, _LEAVES) for n in ast.walk(node)):
        raise NotUnderstood(f"`{file.source(node)}` binds names or waits")
    module = flax_module_call(site)
    if module is not None:
        return remat_module_call(module, policy)
    checkpoint, options, imports = _spelled(file, policy)
    begin, end = file.span(node)
    before, after = f"{checkpoint}(lambda: ", f"{options})()"
    return Wrap(file=file.name, begin=begin, end=end, before=before, after=after), *imports


def _around_loop(repeat: Repeat, loop: Loop, policy: Policy) -> tuple[Edit, ...]:
    checkpoint, options, imports = _spelled(repeat.file, policy)
    return *as_function(repeat.file, loop, f"{checkpoint}({{}}{options})"), *imports


def _around_body(repeat: Repeat, policy: Policy) -> tuple[Edit, ...]:
    if repeat.body is not None:
        return checkpoint_around(repeat.file, repeat.body, policy, is_in_scan=True)
    scanned = flax_scan(repeat.sites[0])
    if scanned is None:
        raise NotUnderstood("what the scan repeats was not found")
    return remat_scanned(repeat.sites[0], scanned, policy)


def _spelled(
    file: SourceFile,
    policy: Policy,
    *,
    is_in_scan: bool = False,
    checkpoint: str = "jax.checkpoint",
) -> tuple[str, str, tuple[Edit, ...]]:
    """The name of `jax.checkpoint` in a file, its options with a comma before each, and the imports."""
    name, imports = spelled(file, checkpoint)
    option, more = policy.in_file(file)
    options = [o for o in (option, "prevent_cse=False" * is_in_scan) if o]
    return name, "".join(f", {o}" for o in options), (*imports, *more)


def _decorates(file: SourceFile, decorator: ast.expr) -> bool:
    if not isinstance(decorator, ast.Call):
        return is_checkpoint_name(qualified(file, decorator))
    return any(is_checkpoint_name(name) for name in made_by(file, decorator))


def is_made_by_checkpoint(file: SourceFile, function: ast.expr) -> bool:
    """Whether a function is one under a checkpoint."""
    return any(is_checkpoint_name(name) for name in made_by(file, function))
