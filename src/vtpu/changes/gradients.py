"""Where the user's program asks for gradients, and which calls are inside of what is differentiated."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from vtpu.changes.call_sites import CallSite, assigned, made_by
from vtpu.changes.jit_sites import is_jit_name
from vtpu.changes.names import qualified

_GRADIENTS = (
    "grad", "value_and_grad", "vjp", "linearize", "filter_grad", "filter_value_and_grad",
    "filter_vjp", "hessian", "jacrev", "jacfwd",
)  # fmt: skip


def is_gradient_name(name: str) -> bool:
    """Whether a full name is that of a function that differentiates, `jax.value_and_grad`."""
    library, _, function = name.rpartition(".")
    return function in _GRADIENTS and library.partition(".")[0] in ("jax", "flax", "equinox")


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
