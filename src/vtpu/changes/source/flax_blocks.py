"""Modules of Flax that are called again and again. Around them goes a checkpoint of Flax, not of JAX."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Keyword, Replace, Wrap
from vtpu.changes.rewriting.policies import Policy
from vtpu.changes.source.call_sites import CallSite, assigned, definitions
from vtpu.changes.source.loops import loops_around, scope_of
from vtpu.changes.source.names import fresh, qualified, spelled
from vtpu.changes.source.statements import indentation


class Flax(StrEnum):
    """Flax's two kinds of modules."""

    NNX = "flax.nnx"
    LINEN = "flax.linen"


class OtherModule(Exception):
    """A call of a module that no checkpoint can be put around, and why."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModuleCall:
    """A call of a module of Flax, of class `name`."""

    flax: Flax
    site: CallSite
    name: str


def flax_module_call(site: CallSite) -> ModuleCall | None:
    """The call of a module of Flax; None of anything else."""
    name, _, method = site.callee.rpartition(".")
    if not name or not method or site.home is None:
        return None
    kind = _kind(site.home, name.rpartition(".")[2])
    return ModuleCall(flax=kind, site=site, name=name.rpartition(".")[2]) if kind else None


def remat_module_call(call: ModuleCall, policy: Policy) -> tuple[Edit, ...]:
    """The edits that put `nnx.remat` or `nn.remat` around the call of a module.

    Raises:
        OtherModule: it is written in a way that this does not know.
    """
    if call.flax is Flax.NNX:
        return _remat_nnx(call.site, policy)
    created = list(_created(call))
    if not created:
        raise OtherModule(f"where {call.name} is made was not found: put `nn.remat` around it")
    return tuple(e for node in created for e in _remat_linen(call, node, policy))


def flax_scan(site: CallSite) -> ast.expr | ast.FunctionDef | None:
    """What `nnx.scan` or `nn.scan` repeats in a call: the function or class, or the decorated definition."""
    if not isinstance(site.node, ast.Call):
        return None
    for node in _makers(site.file, site.node.func):
        if qualified(site.file, node.func) in (f"{Flax.NNX}.scan", f"{Flax.LINEN}.scan"):
            return node.args[0] if node.args else None
    name = getattr(site.node.func, "id", getattr(site.node.func, "attr", ""))
    return next((d for d in definitions(site.file, name) if _scan_decorator(site.file, d)), None)


def remat_scanned(
    site: CallSite, scanned: ast.expr | ast.FunctionDef, policy: Policy
) -> tuple[Edit, ...]:
    """The edits that put a checkpoint of Flax around what its `scan` repeats.

    Raises:
        OtherModule: the parameters would get other names.
    """
    file = site.file
    if isinstance(scanned, ast.FunctionDef):
        return _decorated(file, scanned, policy)
    is_linen = any(
        qualified(file, n.func) == f"{Flax.LINEN}.scan"
        for n in _makers(file, getattr(site.node, "func", site.node))
    )
    before, after, imports = _spelled(
        file, Flax.LINEN if is_linen else Flax.NNX, policy, in_scan=True
    )
    begin, end = file.span(scanned)
    wrap = Wrap(file=file.name, begin=begin, end=end, before=f"{before}(", after=f"{after})")
    keep = _keep_scan_name(file, scanned, site) if is_linen else ()
    return wrap, *keep, *imports


def _kind(file: SourceFile, name: str) -> Flax | None:
    """Which kind of module a class of a file is."""
    classes = [n for n in ast.walk(file.tree) if isinstance(n, ast.ClassDef) and n.name == name]
    for base in (b for c in classes for b in c.bases):
        full = qualified(file, base)
        for kind in Flax:
            if full == f"{kind}.Module":
                return kind
        if full and full != name and (kind := _kind(file, full)):
            return kind
    return None


def _remat_nnx(site: CallSite, policy: Policy) -> tuple[Edit, ...]:
    """`nnx.remat(lambda module: module(x))(block)`: the module goes in and out, all else is seen."""
    assert isinstance(site.node, ast.Call)
    file, func = site.file, site.node.func
    method = site.callee.rpartition(".")[2]
    is_method = isinstance(func, ast.Attribute) and func.attr == method != "__call__"
    module = func.value if is_method and isinstance(func, ast.Attribute) else func
    if isinstance(module, ast.Call):
        raise OtherModule(f"`{file.source(module)}` makes its module where it calls it")
    name = fresh(file, "module")
    before, after, imports = _spelled(file, Flax.NNX, policy)
    begin, end = file.span(module)
    named = Replace(file=file.name, begin=begin, end=end, text=name)
    first, last = file.span(site.node)
    wrap = Wrap(
        file=file.name,
        begin=first,
        end=last,
        before=f"{before}(lambda {name}: ",
        after=f"{after})({file.source(module)})",
    )
    return named, wrap, *imports


def _spelled(
    file: SourceFile, flax: Flax, policy: Policy, *, in_scan: bool = False
) -> tuple[str, str, tuple[Edit, ...]]:
    """The name of Flax's checkpoint in a file, its options with a comma before each, the imports."""
    name, imports = spelled(file, f"{flax}.remat")
    option, more = policy.in_file(file)
    options = [o for o in (option, "prevent_cse=False" * in_scan) if o]
    return name, "".join(f", {o}" for o in options), (*imports, *more)


def _decorated(file: SourceFile, function: ast.FunctionDef, policy: Policy) -> tuple[Edit, ...]:
    """`@nnx.remat(…)` between `@nnx.scan(…)` and the function."""
    name, options, imports = _spelled(file, Flax.NNX, policy, in_scan=True)
    at = file.offset(function.lineno, 0)
    text = f"{indentation(file, function)}@{name}({options.removeprefix(', ')})\n"
    return Replace(file=file.name, begin=at, end=at, text=text), *imports


def _scan_decorator(file: SourceFile, function: ast.FunctionDef) -> ast.expr | None:
    for decorator in function.decorator_list:
        func = decorator.func if isinstance(decorator, ast.Call) else decorator
        if qualified(file, func) == f"{Flax.NNX}.scan":
            return decorator
    return None


def _makers(file: SourceFile, node: ast.expr) -> Iterator[ast.Call]:
    """The calls that made what is called: `nn.scan(Block, …)` of `nn.scan(Block, …)(cfg)(x)`."""
    while isinstance(node, ast.Call):
        yield node
        node = node.func
    if isinstance(node, ast.Name | ast.Attribute):
        last = node.attr if isinstance(node, ast.Attribute) else node.id
        yield from (n for v in assigned(file, last) for n in _calls_of(v))


def _calls_of(node: ast.expr) -> Iterator[ast.Call]:
    while isinstance(node, ast.Call):
        yield node
        node = node.func


# ---- modules of Linen are made anew under the checkpoint, and must keep their names ------------------


def _created(call: ModuleCall) -> Iterator[ast.Call]:
    """Where a module is made: in the call itself, or in `setup`."""
    node = call.site.node
    func = node.func if isinstance(node, ast.Call) else node
    if isinstance(func, ast.Call):
        if qualified(call.site.file, func.func) == call.name:
            yield func
        return
    for setup in definitions(call.site.file, "setup"):
        for inner in ast.walk(setup):
            if isinstance(inner, ast.Call) and qualified(call.site.file, inner.func) == call.name:
                yield inner


def _remat_linen(call: ModuleCall, created: ast.Call, policy: Policy) -> tuple[Edit, ...]:
    file = call.site.file
    before, after, imports = _spelled(file, Flax.LINEN, policy)
    begin, end = file.span(created.func)
    wrap = Wrap(file=file.name, begin=begin, end=end, before=f"{before}(", after=f"{after})")
    scope = scope_of(file, created)
    is_in_setup = isinstance(scope, ast.FunctionDef) and scope.name == "setup"
    keep = () if is_in_setup else _keep_name(file, created, call.name)
    return wrap, *keep, *imports


def _keep_name(file: SourceFile, created: ast.Call, name: str) -> tuple[Edit, ...]:
    """The name that a module has without the checkpoint, whose class is called otherwise."""
    if any(k.arg == "name" for k in created.keywords):
        return ()
    loops = loops_around(file, created)
    counter = _counter(file, loops[0]) if len(loops) == 1 else None
    alike = [
        n
        for n in ast.walk(scope_of(file, created))
        if isinstance(n, ast.Call) and qualified(file, n.func) == name
    ]
    if counter is None or len(alike) != 1:
        raise OtherModule(
            f"under `nn.remat` the parameters of {name} would get other names: give each a `name=`"
        )
    return (_named(file, created, f'f"{name}_{{{counter}}}"'),)


def _keep_scan_name(file: SourceFile, scanned: ast.expr, site: CallSite) -> tuple[Edit, ...]:
    """The name that a scanned module has without the checkpoint."""
    created = site.node.func if isinstance(site.node, ast.Call) else None
    scans = [
        n
        for n in ast.walk(scope_of(file, site.node))
        if isinstance(n, ast.Call) and qualified(file, n.func) == f"{Flax.LINEN}.scan"
    ]
    if not isinstance(created, ast.Call) or created in scans or len(scans) != 1:
        raise OtherModule(
            "where the scanned module is made was not found: put `nn.remat` around it"
        )
    if any(k.arg == "name" for k in created.keywords):
        return ()
    return (_named(file, created, f'"Scan{file.source(scanned)}_0"'),)


def _named(file: SourceFile, created: ast.Call, value: str) -> Keyword:
    begin, end = file.span(created)
    return Keyword(file=file.name, begin=begin, end=end, is_call=True, name="name", value=value)


def _counter(file: SourceFile, loop: ast.For | ast.While) -> str | None:
    """`i` of `for i in range(n)`."""
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return None
    is_range = isinstance(loop.iter, ast.Call) and qualified(file, loop.iter.func) == "range"
    return loop.target.id if is_range and len(getattr(loop.iter, "args", ())) == 1 else None
