"""Ctrl-C during a compile.

Where JAX compiles on the thread that asked, Python's own handler ends the wait. Some releases (0.10)
compile on a thread of their own, while the one that asked looks for signals and leaves when one
raises: then nobody wants the program any more, and that thread has to notice.
"""

from __future__ import annotations

from collections.abc import Callable

from vtpu.device.call_stacks import runs_on_callers_thread, waiting_frames


class Abandoned(BaseException):
    """Who asked for the program has left."""


def abandonment() -> Callable[[], None]:
    """A function to call while waiting for the compiler; it raises once nobody waits any more."""
    callers = set() if runs_on_callers_thread() else set(waiting_frames())

    def check() -> None:
        if callers and callers.isdisjoint(waiting_frames()):
            raise Abandoned

    return check
