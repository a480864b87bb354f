"""What the other hosts of a slice would say: they are taken to do as this one does.

A slice of several hosts has one process here. JAX's helpers for many processes (`multihost_utils`)
send values to the devices of all hosts and read them back, to broadcast them, to gather them or to
check that they are the same everywhere. They do so here too, with every program and transfer, but what
comes back is what would come back if every host had called with the values of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from vtpu.device import _core
from vtpu.device.loading import when_loaded

_HELPERS = "jax.experimental.multihost_utils"
_BROADCAST, _GATHER = "broadcast_one_to_all", "_handle_array_process_allgather"


def take_other_hosts_as_this_one() -> None:
    """Makes JAX's helpers for many processes give what equal processes would."""
    when_loaded(_HELPERS, replace_helpers)


def replace_helpers(module: ModuleType) -> None:
    """The same for `multihost_utils` as it was loaded."""
    if hasattr(getattr(module, _BROADCAST), "__wrapped__"):  # done before
        return
    setattr(module, _BROADCAST, _broadcast(getattr(module, _BROADCAST)))
    setattr(module, _GATHER, _gather(getattr(module, _GATHER)))


def _broadcast(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
        import jax

        if jax.process_count() == 1:
            return original(in_tree, is_source)
        own = jax.tree.map(np.asarray, in_tree)
        with _values_of_this_host():
            received = original(own, is_source)
        return jax.tree.map(_as, own, received)

    return broadcast_one_to_all


def _gather(original: Callable[[Any, bool], np.ndarray]) -> Callable[[Any, bool], np.ndarray]:
    @wraps(original)
    def handle_array_process_allgather(array: Any, tiled: bool) -> np.ndarray:
        import jax

        spans_hosts = isinstance(array, jax.Array) and not array.is_fully_addressable
        if spans_hosts or jax.process_count() == 1:
            return original(array, tiled)
        own = np.asarray(array)
        with _values_of_this_host():
            received = original(own, tiled)
        return _as(np.stack([own] * jax.process_count()), received)

    return handle_array_process_allgather


def _as(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Values in the shape and type that JAX gave the result."""
    return values.astype(like.dtype).reshape(like.shape)


@contextmanager
def _values_of_this_host() -> Generator[None]:
    """What this thread reads meanwhile counts as taken from this host."""
    _core.set_assuming(True)
    try:
        yield
    finally:
        _core.set_assuming(False)
