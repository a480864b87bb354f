"""The events of a run, as a numpy array of records. The native core writes them in this form."""

from __future__ import annotations

from enum import IntEnum, IntFlag

import numpy as np

#: One event. Times in nanoseconds since the recording began; -1 is unknown, never 0.
EVENT_DTYPE = np.dtype(
    [
        ("time_ns", "<i8"),  # when it began, on the host's monotonic clock
        ("host_ns", "<i8"),  # how long it kept the calling thread, measured on this machine
        ("bytes", "<i8"),
        ("address", "<i8"),  # of a buffer in its device's HBM; of others see EventKind
        ("subject", "<u8"),  # buffer; of an execution its number
        ("stack", "<u4"),  # 0: no Python frame
        ("program", "<u4"),  # 0: none
        ("device", "<i4"),  # global id; -1: all of the program's on this host
        ("detail", "<u4"),  # see EventKind
        ("kind", "<u1"),
        ("flags", "<u1"),
        ("why", "<u2"),  # fabricated values: the number of the reason
        ("thread", "<u4"),  # of the host, from 1 as they appeared; 0: not noted
        ("cpu_ns", "<i8"),  # CPU time that the thread had used by the end, vtpu's own work apart
        ("awaits_execution", "<u4"),  # what had to be there first, see EventKind; 0: nothing
        ("awaits_transfer", "<u4"),
    ]
)

NUM_FIRST_COLUMNS = 12
"""Of these events in recordings of the first form; what the others would say is not known."""


class EventKind(IntEnum):
    """What happened; beside each, what `bytes` and `detail` mean.

    Executions are numbered by their `subject`, transfers as they stand here: the n-th that fills a
    buffer (HOST_TO_DEVICE, COPY) is number n. An execution awaits the last transfer that filled an
    argument; what reads a buffer (DEVICE_TO_HOST, COPY, WAIT) the execution or transfer that filled
    it. Events of a host thread's own calls note the thread: all but ALLOCATE, FREE, FAILURE and
    UNSUPPORTED.

    Two arrays that the host sends with one fingerprint and shape have the same contents, as far as they
    are looked at (`native/fingerprint.h`); -1: none was taken, as in older recordings.
    """

    COMPILE = 1  # bytes: the program as sent
    EXECUTE = 2  # bytes: temporaries per device; address: its number to JAX's profiler, if positive
    ALLOCATE = 3  # bytes: as placed, padding included; detail: shape
    FREE = 4  # the same
    HOST_TO_DEVICE = 5  # bytes: as the host holds them; detail: shape; address: their fingerprint
    DEVICE_TO_HOST = 6  # the same without a fingerprint
    COPY = 7  # between memories; bytes in the device's layout; detail: the source's device
    CALLBACK = 8  # a host callback got a value; detail: channel
    FAILURE = 9  # a request that did not fit; bytes: its size
    UNSUPPORTED = 10  # detail: the number of the ABI's function
    WAIT = 11  # the host asks that a buffer be ready, and goes on when it is
    PAUSE = 12  # vtpu compiled or computed values, on any thread: no time of the slice or its host


class EventFlag(IntFlag):
    """Bits of an event's flags. The two lowest hold a memory kind where the subject is a buffer."""

    ALIASED = 16  # an allocation in donated memory, a free by donation
    FABRICATED = 32  # the host saw values that were not computed
    ASSUMED = 128  # the host saw values that other hosts are taken to have
    RESERVE = 64  # a failure to reserve a program's temporaries
    CACHED = 1  # a compile whose result was known
    FAILED = 2  # a compile without a result, an execution that did not happen


class MemoryKind(IntEnum):
    """The memories of a device. Host memories are the host's, counted per device."""

    DEVICE = 0
    PINNED_HOST = 1
    UNPINNED_HOST = 2


MEMORY_KIND_MASK = 3
SOURCE_KIND_SHIFT = 2


def memory_kinds(events: np.ndarray) -> np.ndarray:
    """The memory kind of each event's subject (of a copy: the destination)."""
    return events["flags"] & MEMORY_KIND_MASK


def source_kinds(events: np.ndarray) -> np.ndarray:
    """The memory kind that each copy came from."""
    return events["flags"] >> SOURCE_KIND_SHIFT & MEMORY_KIND_MASK


def of_kind(events: np.ndarray, kind: EventKind) -> np.ndarray:
    """The events of one kind."""
    return select(events, events["kind"] == kind)


def select(events: np.ndarray, which: np.ndarray) -> np.ndarray:
    """`events[which]`, each copied as a whole: numpy would copy them field by field."""
    whole = np.dtype((np.void, events.dtype.itemsize))
    return np.ascontiguousarray(events).view(whole)[which].view(events.dtype)
