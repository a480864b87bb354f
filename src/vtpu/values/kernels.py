"""Pallas kernels by what the program holds of them, so that they can be interpreted.

A program holds a kernel as Mosaic code for a TPU. What JAX made that from, the kernel's jaxpr, is kept
when JAX lowers it, and found again by that code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from vtpu.values.kernel_operations import complete_interpreter


@dataclass(frozen=True, slots=True)
class Kernel:
    """What JAX lowered: the parameters of a `pallas_call` or, on several cores, of an `mpmd_map`; the
    avals of its arguments; in which mesh.
    """

    primitive: str
    parameters: dict[str, Any]
    arguments: tuple[Any, ...]
    axis_context: Any


_kernels: dict[bytes, Kernel] = {}


def keep_kernel(config: str, kernel: Kernel) -> None:
    """Remembers what the kernel with this configuration was made from."""
    _kernels[_key(config)] = kernel


def find_kernel(config: str) -> Kernel | None:
    """What the kernel with this configuration was made from, if JAX lowered it in this process."""
    return _kernels.get(_key(config))


def _key(config: str) -> bytes:
    return hashlib.sha256(config.encode("utf-8", "surrogateescape")).digest()


def interpreter_of(kernel: Kernel) -> Callable[..., Any]:
    """A JAX function that does what a kernel does, out of operations that any backend has."""
    complete_interpreter()
    parameters = kernel.parameters
    if kernel.primitive == "mpmd_map":
        from jax._src.pallas import mpmd

        return partial(mpmd.mpmd_map_p.bind, **parameters, interpret=True)
    from jax._src.pallas import hlo_interpreter

    return partial(hlo_interpreter.pallas_call_hlo_interpret, **parameters)
