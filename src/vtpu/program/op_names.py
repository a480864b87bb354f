"""JAX's path of an operation, `jit(step)/transpose(jvp(block_3))/attn/dot_general`, taken apart.

The path nests names of the user (modules of Flax, `jax.named_scope`, functions under jit) in words of
JAX: transformations around a part, control flow between parts, and the primitive at the end.
"""

from __future__ import annotations

import re
from enum import StrEnum

_CALL = re.compile(r"^([\w.\-<>]+)\((.*)\)$")
_TRANSFORMATIONS = (
    "jvp",
    "transpose",
    "vmap",
    "pmap",
    "remat",
    "rematted_computation",
    "checkpoint",
)
_FUNCTION = ("jit", "pjit", "xla_call")
_CONTROL_FLOW = {
    "while", "body", "cond", "scan", "cond_fun", "body_fun", "closed_call", "core_call", "custom_jvp_call", "eval_jaxpr",
    "custom_vjp_call", "remat", "checkpoint", "rematted_computation", "shard_map", "jit", "pjit",
}  # fmt: skip
#: `jnp.einsum` names its operations after its subscripts: `bhk,bthk->bht`.
_SUBSCRIPTS = re.compile(r"^[A-Za-z.\s]*(?:,[A-Za-z.\s]*)+$|^[A-Za-z.,\s]*->[A-Za-z.\s]*$")
_BRANCH = re.compile(r"^branch_\d+_fun$")


class Phase(StrEnum):
    """The part of a training step that an operation belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    RECOMPUTED = "recomputed"
    OTHER = "other"


def phase_of(op_name: str) -> Phase:
    """The phase, from JAX's transformations: `jvp` is forward, its `transpose` backward."""
    if "rematted_computation" in op_name:
        return Phase.RECOMPUTED
    if "transpose(" in op_name:
        return Phase.BACKWARD
    return Phase.FORWARD if "jvp(" in op_name else Phase.OTHER


def layer_of(op_name: str) -> str:
    """The user's names on the path, `block_3/attn`; empty where there are none.

    Left out are the outermost function, transformations, control flow, functions of libraries under
    jit, subscripts of `einsum`, and the primitive.
    """
    parts = _split(op_name)
    names = [_user_name(part) for part in parts[1:-1]] if len(parts) > 1 else []
    if parts and len(parts) > 1:
        names = [_user_name(parts[0], is_first=True), *names]
    return "/".join(name for name in names if name)


def _split(op_name: str) -> list[str]:
    """The parts of a path; a slash in brackets does not part."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(op_name):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "/" and depth <= 0:
            parts.append(op_name[start:at])
            start = at + 1
    parts.append(op_name[start:])
    return parts


def _user_name(part: str, *, is_first: bool = False) -> str:
    while (match := _CALL.match(part)) and match[1] in _TRANSFORMATIONS:
        part = match[2]
    match = _CALL.match(part)
    if match and match[1] in _FUNCTION:
        return ""  # a function's name: the layer is what encloses it
    if is_first or part in _CONTROL_FLOW or _BRANCH.match(part) or _SUBSCRIPTS.match(part):
        return ""
    if "/" in part:  # a transformation around several parts
        return "/".join(n for n in (_user_name(p) for p in _split(part)) if n)
    return part
