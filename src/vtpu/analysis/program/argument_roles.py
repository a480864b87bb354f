"""What an argument of a program is for, judged by its name, type and place among the others.

JAX keeps the user's names of arguments (`state.params['layers'][3]['w']`) and nothing about their
roles, so a role is a judgement: what the rules below do not tell is `argument`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vtpu.program.element_types import ElementType
from vtpu.program.shapes import ArrayShape, Shape


class Role(StrEnum):
    """What memory is for."""

    PARAMETER = "parameter"
    OPTIMIZER = "optimizer state"
    BATCH = "batch"
    KEY = "random key"
    CACHE = "cache"
    ARGUMENT = "argument"
    OUTPUT = "output"
    FORWARD = "activation (forward)"
    BACKWARD = "gradient (backward)"
    RECOMPUTED = "activation (recomputed)"
    COLLECTIVE = "collective"
    KERNEL = "kernel"
    TEMP = "temporary"
    CONSTANT = "constant"
    TABLE = "tuple table"
    LOCAL = "local"


_WORD = re.compile(r"[A-Za-z][a-z0-9]*|[A-Z]+(?![a-z])")
_OPTIMIZER = {
    "opt", "optstate", "optimizer", "optim", "mu", "nu", "momentum", "velocity", "adam", "adamw",
    "moment", "moments", "trace", "accumulator", "ema", "slots", "sgd", "lion", "adafactor",
}  # fmt: skip
_PARAMETER = {"params", "param", "parameters", "weights", "weight", "model", "variables", "kernel"}
_BATCH = {
    "batch", "batches", "data", "x", "xs", "y", "ys", "inputs", "input", "images", "image", "labels",
    "label", "tokens", "token", "targets", "target", "ids", "obs", "observations", "actions", "rewards",
    "mask", "masks", "positions", "segment", "prompt", "prompts", "examples", "features",
}  # fmt: skip
_KEY = {"key", "keys", "rng", "rngs", "prng", "seed", "seeds"}
_CACHE = {"cache", "caches", "kv", "kvcache", "kcache", "vcache"}


@dataclass(frozen=True, slots=True)
class Argument:
    """An entry parameter: the user's name of it, its shape, whether an output reuses its memory."""

    name: str
    shape: Shape
    is_donated: bool


def judge_roles(arguments: Sequence[Argument]) -> tuple[Role, ...]:
    """The role of each argument, in order."""
    roles = [_by_name(a) for a in arguments]
    known = {a.name: r for a, r in zip(arguments, roles, strict=True)}
    return tuple(
        role or _by_company(argument, known)
        for argument, role in zip(arguments, roles, strict=True)
    )


def _words(name: str) -> list[str]:
    """The words of a path in order: `opt_state[0].mu['w']` is opt, state, mu, w."""
    return [w.lower() for w in _WORD.findall(name)]


def _by_name(argument: Argument) -> Role | None:
    words = _words(argument.name)
    found = set(words)
    if found & _KEY and _is_key(argument.shape):
        return Role.KEY
    if found & _OPTIMIZER:
        return Role.OPTIMIZER
    if found & _PARAMETER:
        return Role.PARAMETER
    if found & _CACHE:
        return Role.CACHE
    if found & _KEY and not argument.is_donated and _is_small(argument.shape):
        return Role.KEY
    return Role.BATCH if words and words[0] in _BATCH and not argument.is_donated else None


def _by_company(argument: Argument, known: Mapping[str, Role | None]) -> Role:
    """What has no telling name is what most of its tree is; a donated tree without any is state."""
    root = tree_of(argument.name)
    siblings = [r for name, r in known.items() if r and tree_of(name) == root]
    if siblings:
        return Counter(siblings).most_common(1)[0][0]
    if argument.is_donated and len(argument.name) > len(root):
        return Role.PARAMETER
    if argument.name and set(_words(argument.name)) & _BATCH:
        return Role.BATCH
    return Role.ARGUMENT


def tree_of(name: str) -> str:
    """The argument of the function that a leaf belongs to: `state` of `state.params['w']`."""
    return re.split(r"[.\[]", name, maxsplit=1)[0]


def _is_key(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and shape.element_type in (
        ElementType.U32,
        ElementType.S32,
    )


def _is_small(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and shape.logical_bytes <= 4096
