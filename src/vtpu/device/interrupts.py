"""Ctrl-C: during a compile, and as what ended the program.

Where JAX compiles on the thread that asked, Python's own handler ends the wait. Some releases (0.10)
compile on a thread of their own, while the one that asked looks for signals and leaves when one
raises: then nobody wants the program any more, and that thread has to notice.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator

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


@contextlib.contextmanager
def interrupt_stays_the_end() -> Generator[None, None, None]:
    """Around what runs at exit: the process still ends as Python ends one by SIGINT.

    Python notes that an interrupt ended the program, and forgets it when code is run from text, as
    happens when a module with dataclasses is imported.
    """
    yield
    if _interrupt_ended_program():
        with contextlib.suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102, what makes Python note it again


def _interrupt_ended_program() -> bool:
    """Not so at a prompt, where the last error is one of an earlier line."""
    return getattr(sys, "last_type", None) is KeyboardInterrupt and not hasattr(sys, "ps1")
