"""Which arguments a program was asked to donate.

JAX drops a donation that no output can take while it lowers, so the module that is compiled does not
have it. What was asked for stands in JAX's own objects in the frames above the compile: they are read
and never changed. Where a release keeps them otherwise, the answer is that nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

_JAX = "/jax/_src/"
_COMPUTATION = ("interpreters/pxla.py", "compile", "self")
_JIT = ("pjit.py", "cache_miss", "jit_info")


@dataclass(frozen=True, slots=True)
class AskedDonation:
    """The entry parameters that were to be donated, by number; None: not known.

    `is_off`: `jax.jit` was told to donate, and `jax_debug_nans` switched that off.
    """

    parameters: tuple[int, ...] | None = None
    is_off: bool = False


def asked_donation(frame: FrameType | None) -> AskedDonation:
    """What the program that is compiled below `frame`, the innermost of JAX's, was asked to donate."""
    computation = jit = None
    for at in _frames_of_jax(frame):
        computation = computation or _local(at, *_COMPUTATION)
        jit = jit or _local(at, *_JIT)
    return AskedDonation(_donated(computation), is_donation_off(jit))


def is_donation_off(jit: Any) -> bool:
    """Whether `jax_debug_nans` switches off what a `jit` would donate; `jit` is JAX's `PjitInfo`."""
    asks = getattr(jit, "donate_argnums", ()) or getattr(jit, "donate_argnames", ())
    return bool(asks) and _finds_nans()


def _finds_nans() -> bool:
    from jax._src import config

    return bool(getattr(getattr(config, "debug_nans", None), "value", False))


def _frames_of_jax(frame: FrameType | None) -> Iterator[FrameType]:
    """JAX's frames from the compile outwards: what called them may compile something else."""
    while frame is not None and _JAX in frame.f_code.co_filename.replace("\\", "/"):
        yield frame
        frame = frame.f_back


def _local(frame: FrameType, file: str, function: str, name: str) -> Any:
    code = frame.f_code
    is_it = code.co_name == function and code.co_filename.replace("\\", "/").endswith(_JAX + file)
    return frame.f_locals.get(name) if is_it else None


def _donated(computation: Any) -> tuple[int, ...] | None:
    """The numbers in JAX's list of flags, one per parameter of the module.

    With ordered effects the module has tokens before them, which are no arguments.
    """
    flags = getattr(computation, "_donated_invars", None)
    options = getattr(computation, "compile_args", None)
    if not isinstance(flags, tuple | list) or not isinstance(options, dict):
        return None
    if options.get("ordered_effects"):
        return None
    return tuple(number for number, flag in enumerate(flags) if flag)
