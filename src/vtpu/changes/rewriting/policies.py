"""What a checkpoint keeps: JAX's named policies, as code."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit
from vtpu.changes.source.names import called, spelled

_POLICIES = "jax.checkpoint_policies"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy of `jax.checkpoint_policies`; `arguments` where that is a function of some. `keeps` says what
    is not computed again. The one without a name keeps nothing, as a checkpoint does by itself.
    """

    name: str
    keeps: str
    arguments: str = ""
    is_offload: bool = False

    def in_file(self, file: SourceFile) -> tuple[str, tuple[Edit, ...]]:
        """The keyword of `jax.checkpoint` as a file spells it, empty without a name, and its imports."""
        if not self.name:
            return "", ()
        name, imports = spelled(file, f"{_POLICIES}.{self.name}")
        return f"policy={name}{self.arguments}", imports


NOTHING = Policy(name="", keeps="nothing")
DOTS = Policy(name="dots_saveable", keeps="the results of products")
WEIGHT_DOTS = Policy(
    name="dots_with_no_batch_dims_saveable", keeps="the results of products with weights"
)
#: From what keeps least to what keeps most.
NAMED = (NOTHING, WEIGHT_DOTS, DOTS)
OFFLOADED_DOTS = Policy(
    name="offload_dot_with_no_batch_dims",
    keeps="the results of products with weights in host memory",
    arguments='("device", "pinned_host")',
    is_offload=True,
)


def offloaded_names(names: Iterable[str]) -> Policy:
    """The policy that keeps values with names in host memory, and nothing else."""
    listed = ", ".join(f'"{n}"' for n in names)
    arguments = (
        f"(names_which_can_be_saved=[], names_which_can_be_offloaded=[{listed}], "
        'offload_src="device", offload_dst="pinned_host")'
    )
    return Policy(
        name="save_and_offload_only_these_names",
        keeps=f"{listed} in host memory",
        arguments=arguments,
        is_offload=True,
    )


def checkpoint_names(file: SourceFile) -> list[str]:
    """The names that a file gives to values with `checkpoint_name`."""
    calls = [n for n in ast.walk(file.tree) if isinstance(n, ast.Call)]
    given = [_given_name(c) for c in calls if called(file, c).endswith("checkpoint_name")]
    return list(dict.fromkeys(n for n in given if n))


def _given_name(call: ast.Call) -> str:
    value = next((k.value for k in call.keywords if k.arg == "name"), None)
    if value is None and len(call.args) > 1:
        value = call.args[1]
    return str(value.value) if isinstance(value, ast.Constant) else ""
