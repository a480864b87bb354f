"""The Python stack that a compile came from, also when JAX compiles on a thread of its own."""

from __future__ import annotations

import sys
import threading
from types import FrameType

from vtpu.device import _core

_COMPILER_FILE = "jax/_src/compiler.py"


def compiling_stack() -> int:
    """The number of the stack that asked for the compile under way; 0 when it cannot be told."""
    own = _outside_vtpu(sys._getframe())  # noqa: SLF001, Python has no other name for it
    if own is not None:
        return _core.stack_of(own)
    waiting = [f for f in _other_threads() if _is_compiling(f)]
    return _core.stack_of(waiting[0]) if len(waiting) == 1 else 0


def _outside_vtpu(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_globals.get("__name__", "").startswith("vtpu."):
        frame = frame.f_back
    return frame


def _other_threads() -> list[FrameType]:
    frames = sys._current_frames()  # noqa: SLF001, Python has no other name for it
    del frames[threading.get_ident()]  # this frame would hold itself, and theirs with their arrays
    return list(frames.values())


def _is_compiling(frame: FrameType | None) -> bool:
    """Whether a thread stands within JAX's call of the compiler."""
    for _ in range(8):
        if frame is None:
            return False
        code = frame.f_code
        if code.co_filename.endswith(_COMPILER_FILE) and code.co_name.startswith("backend_compile"):
            return True
        frame = frame.f_back
    return False
