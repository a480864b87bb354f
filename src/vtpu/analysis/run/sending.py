"""Why the host sent an array: the program asked for it, or an operation was given a number."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vtpu.analysis.run.definitions import is_jax, is_operation
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording, Stack, StackFrame

_ASKING = {
    "array", "asarray", "device_put", "device_put_replicated", "device_put_sharded",
    "make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays",
}  # fmt: skip
#: They send the number that they fill an array with.
_CREATING = {
    "arange", "empty", "empty_like", "eye", "full", "full_like", "key", "linspace", "ones", "ones_like", "PRNGKey",
    "zeros", "zeros_like",
}  # fmt: skip
_WRAPPERS = ("/jax/_src/traceback_util.py", "/jax/_src/profiler.py")


def asked_for(recording: Recording, events: np.ndarray) -> np.ndarray:
    """Whether the program asked for transfers or copies at some places among the events, as with
    `jax.device_put`, or for a new array, as with `jnp.zeros`.
    """
    stacks = recording.events["stack"][events]
    asking = [n for n in np.unique(stacks).tolist() if _asks(recording.stack(n))]
    return np.isin(stacks, asking)


def sent_for_operations(recording: Recording, events: np.ndarray) -> np.ndarray:
    """Whether transfers at some places were made for an operation outside jit: the next execution of the
    same thread is one, and the program did not ask for the transfer.
    """
    all_events = recording.events
    executions = np.flatnonzero(all_events["kind"] == EventKind.EXECUTE)
    operations = [p.number for p in recording.programs if is_operation(p)]
    found = np.zeros(len(events), bool)
    for thread in np.unique(all_events["thread"][events]):
        mine = executions[all_events["thread"][executions] == thread]
        if len(mine):
            here = all_events["thread"][events] == thread
            after = np.searchsorted(mine, events[here])
            nearest = mine[np.minimum(after, len(mine) - 1)]
            is_one = np.isin(all_events["program"][nearest], operations)
            found[here] = is_one & (after < len(mine))
    return found & ~asked_for(recording, events)


def _asks(stack: Stack) -> bool:
    entry = _entry(stack)
    return entry is not None and entry.function.rsplit(".", 1)[-1] in _ASKING | _CREATING


def _entry(stack: Iterable[StackFrame]) -> StackFrame | None:
    """The function of JAX's that was called: the outermost frame of those that JAX has innermost."""
    entry = None
    for frame in stack:
        if not is_jax(frame.file):
            return entry
        if not frame.file.endswith(_WRAPPERS):
            entry = frame
    return entry
