"""Pallas kernels by what the program holds of them, so that they can be interpreted.

A program holds a kernel as Mosaic code for a TPU. What JAX made that from, the kernel's jaxpr, is kept
when JAX lowers it, and found again by that code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kernel:
    """The parameters of a `pallas_call`, its arguments, and the mesh axes that it sees, with sizes."""

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
    from jax._src.pallas import hlo_interpreter  # only programs with kernels need it

    def interpret(*arguments: Any) -> Any:
        return hlo_interpreter.pallas_call_hlo_interpret(*arguments, **kernel.parameters)

    return interpret
