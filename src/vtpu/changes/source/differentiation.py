"""Where the user's program asks for gradients, and which calls are inside of what is differentiated."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile, SourceFiles
from vtpu.changes.source.call_sites import CallSite, assigned, call_sites, made_by
from vtpu.changes.source.jit_sites import JitSite, is_jit_name
from vtpu.changes.source.names import qualified
from vtpu.changes.source.saved_activations import Saved

_GRADIENTS = (
    "grad", "value_and_grad", "vjp", "linearize", "filter_grad", "filter_value_and_grad",
    "filter_vjp", "hessian", "jacrev", "jacfwd",
)  # fmt: skip
_CHECKPOINTS = {
    "jax": "jax.checkpoint",
    "flax": "flax.nnx.remat",
    "equinox": "equinox.filter_checkpoint",
}


def is_gradient_name(name: str) -> bool:
    """Whether a full name is that of a function that differentiates, `jax.value_and_grad`."""
    library, _, function = name.rpartition(".")
    return function in _GRADIENTS and library.partition(".")[0] in _CHECKPOINTS


def differentiated(sites: Sequence[CallSite], program: str) -> list[CallSite]:
    """The calls of a stack up to the one that differentiates or, without one, that runs the program.

    `program` is its function's name.
    """
    found: list[CallSite] = []
    for site in sites:
        if differentiates(site) or _runs(site, program):
            break
        found.append(site)
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gradient:
    """A call `jax.grad(loss)` in a file."""

    file: SourceFile
    call: ast.Call

    @property
    def checkpoint(self) -> str:
        """The full name of the checkpoint that goes with it: the library's own."""
        return _CHECKPOINTS[qualified(self.file, self.call.func).partition(".")[0]]


def gradient_of(saved: Saved, files: SourceFiles, program: str) -> Gradient | None:
    """What differentiates the code that makes an activation; None: it is not seen in its stack."""
    for site in call_sites(files, saved.frames):
        if call := differentiates(site):
            return Gradient(file=site.file, call=call)
        if _runs(site, program):
            return None
    return None


def gradient_at(site: JitSite | None) -> Gradient | None:
    """What differentiates in the call that jits: of `jax.jit(jax.grad(loss))` the inner one."""
    calls = [n for n in _nested(site.node) if isinstance(n, ast.Call)] if site else []
    found = (c for c in calls if site and is_gradient_name(qualified(site.file, c.func)))
    return next((Gradient(file=site.file, call=c) for c in found if site), None)


def differentiates(site: CallSite) -> ast.Call | None:
    """The call `jax.grad(loss)` that makes what is called, or is the call itself; None: it does not
    differentiate.
    """
    if not isinstance(site.node, ast.Call):
        return None
    makers = [n for e in (site.node.func, *_values(site, site.node.func)) for n in _nested(e)]
    calls = [n for n in (site.node, *makers) if isinstance(n, ast.Call)]
    return next((c for c in calls if is_gradient_name(qualified(site.file, c.func))), None)


def _values(site: CallSite, func: ast.expr) -> list[ast.expr]:
    last = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    return assigned(site.file, last) if last else []


def _nested(node: ast.expr) -> list[ast.expr]:
    """A call and those that it calls the result of, or gives on: of `jit(grad(f))` both."""
    found = [node]
    while isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Call):
        node = node.args[0]
        found.append(node)
    return found


def _runs(site: CallSite, program: str) -> bool:
    """Whether a call runs the whole program."""
    if not isinstance(site.node, ast.Call) or site.called.startswith("jax.lax."):
        return False
    callee = site.callee.rpartition(".")[2]
    if callee and callee == program:
        return True
    made = made_by(site.file, site.node.func)
    return callee == "<lambda>" == program and any(is_jit_name(name) for name in made)
