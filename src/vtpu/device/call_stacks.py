"""Who waits for a compile: its Python stack, also when JAX compiles on a thread of its own."""

from __future__ import annotations

import sys
import threading
from types import FrameType

from vtpu.device import _core

_COMPILER_FILE = "jax/_src/compiler.py"
_DEEPEST = 8  # Python frames within JAX's call of the compiler


def compiling_stack() -> int:
    """The number of the stack that asked for the compile under way; 0 when it cannot be told."""
    frame = compiling_frame()
    return 0 if frame is None else _core.stack_of(frame)


def compiling_frame() -> FrameType | None:
    """The innermost frame that asked for the compile under way; None when it cannot be told."""
    own = _outside_vtpu(sys._getframe())  # noqa: SLF001, Python has no other name for it
    if own is not None:
        return own
    waiting = waiting_frames()
    return waiting[0] if len(waiting) == 1 else None


def waiting_frames() -> list[FrameType]:
    """The innermost frames of the other threads that stand within JAX's call of the compiler."""
    return [frame for frame in other_threads() if _is_compiling(frame)]


def other_threads() -> list[FrameType]:
    """The innermost frames of the other threads."""
    frames = sys._current_frames()  # noqa: SLF001, Python has no other name for it
    del frames[threading.get_ident()]  # this frame would hold itself, and theirs with their arrays
    return list(frames.values())


def runs_on_callers_thread() -> bool:
    """Whether this thread is the one that asked for the compile."""
    return _outside_vtpu(sys._getframe()) is not None  # noqa: SLF001


def _outside_vtpu(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_globals.get("__name__", "").startswith("vtpu."):
        frame = frame.f_back
    return frame


def _is_compiling(frame: FrameType | None) -> bool:
    for _ in range(_DEEPEST):
        if frame is None:
            return False
        code = frame.f_code
        if code.co_filename.endswith(_COMPILER_FILE) and code.co_name.startswith("backend_compile"):
            return True
        frame = frame.f_back
    return False
