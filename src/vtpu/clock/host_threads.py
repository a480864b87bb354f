"""The time of the host's threads on the virtual clock.

A thread was seen at its calls: how much CPU time it used in between, and how much time passed. Where more
passed than it computed, it was blocked: it waited for another thread, slept or read. On the slice it also
waits for devices, and is then late. While it would have been blocked anyway, it catches up: a thread that
is 50 ms late does not wait again for the batch that another thread finished 50 ms ago.

So each thread has two times: `alone`, had it never waited for a device, and its own, which is never
earlier. What it was blocked by is taken to take as long as it did here; its CPU time is divided by the
speed of the slice's host. A host of infinite speed is never blocked either: it waits for devices only, so that
what else this machine does changes nothing. Times are nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf
from typing import NamedTuple


class Stretch(NamedTuple):
    """A thread between two calls: blocked until `works_ns`, then computing until `ends_ns`."""

    begins_ns: int
    works_ns: int
    ends_ns: int


@dataclass(slots=True)
class _Thread:
    """`clock_ns` and `cpu_ns` as read at its last call, without vtpu's own work."""

    clock_ns: int
    cpu_ns: int
    alone_ns: float
    time_ns: float


class HostThreads:
    """The threads of one host, known by numbers. `speed`: 2 computes twice as fast as this machine."""

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed
        self._takes_time = not isinf(speed)
        self._threads: dict[int, _Thread] = {}

    def go_on(self, thread: int, clock_ns: int, cpu_ns: int) -> Stretch:
        """A thread comes to its next call, here at `clock_ns` with `cpu_ns` of CPU time used so far.

        A thread that was not seen before begins with this.
        """
        seen = self._threads.get(thread)
        if seen is None:
            self._threads[thread] = _Thread(clock_ns, cpu_ns, clock_ns, clock_ns)
            return Stretch(clock_ns, clock_ns, clock_ns)
        cpu = max(0, cpu_ns - seen.cpu_ns)
        blocked = max(0, clock_ns - seen.clock_ns - cpu) if self._takes_time else 0
        works = cpu / self._speed
        begins = seen.time_ns
        wakes = max(begins, seen.alone_ns + blocked)
        seen.clock_ns, seen.cpu_ns = clock_ns, cpu_ns
        seen.alone_ns += blocked + works
        seen.time_ns = wakes + works
        return Stretch(round(begins), round(wakes), round(seen.time_ns))

    def wait(self, thread: int, until_ns: int) -> None:
        """A thread that came to a call goes on not before `until_ns`."""
        seen = self._threads[thread]
        seen.time_ns = max(seen.time_ns, until_ns)
