"""The interpreter's end, while other threads still use JAX.

Python ends a daemon thread when that asks for the interpreter's lock too late. Within jaxlib's frames
that ends the process with SIGABRT, so such threads are held in the core, where they do no harm.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from time import monotonic, sleep

from vtpu.device import _core
from vtpu.device.call_stacks import other_threads

_LONGEST_WAIT_S, _LONGEST_COMPUTATION_S = 0.1, 2.0
_INTERVAL_S = 0.005
_WAITING = ("threading", "queue", "selectors", "concurrent.futures.thread")


def hold_threads(wake: Callable[[], None]) -> None:
    """From now on threads that come into the core stay there; waits a little for them to come.

    `wake` ends what they wait for.
    """
    _core.begin_leaving()
    wake()
    began = monotonic()
    while _core.threads_computing() and monotonic() < began + _LONGEST_COMPUTATION_S:
        sleep(_INTERVAL_S)
    deadline = monotonic() + _LONGEST_WAIT_S
    while _busy_threads() > _core.threads_staying() and monotonic() < deadline:
        sleep(_INTERVAL_S)


def let_children_end(clients: Callable[[], Iterable[object]]) -> None:
    """Forked children never destroy `clients`: those would wait for threads that only we have."""

    def keep() -> None:
        for client in clients():
            _core.keep_forever(client)

    os.register_at_fork(after_in_child=keep)


def _busy_threads() -> int:
    """How many other threads run: those in the core too, but not one that waits for a lock."""
    return sum(frame.f_globals.get("__name__") not in _WAITING for frame in other_threads())
