"""Ctrl-C during a compile: ends the wait, whichever thread waits."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from vtpu.device import _core


class Interrupted(BaseException):
    """SIGINT came while the main thread could not run Python."""


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Gives a function to call while waiting, which raises when Ctrl-C came.

    In the main thread Python's own handler raises by itself, and nothing is watched.
    """
    if threading.current_thread() is threading.main_thread():
        yield lambda: None
        return
    _core.watch_interrupts(True)
    try:
        yield _raise_if_interrupted
    finally:
        _core.watch_interrupts(False)


def _raise_if_interrupted() -> None:
    if _core.interrupted():
        raise Interrupted
