"""When executions and transfers happen on the slice: the devices of one host, and its links to them.

Every call says when the host asks (`at_ns`) and gets when it happens. An execution begins when the host
has dispatched it, its devices are free and the last transfer that filled an argument is done: a device
runs its executions in the order in which they were dispatched. Times are nanoseconds of virtual time.

The same timeline is driven by a recording after the run, and by the native core while it runs.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from vtpu.clock.host_links import LinkLane

MOST_IN_FLIGHT = 32
"""Executions that the host may be ahead of a device. JAX's client of TPUs allows so many by default:
`make_tpu_client` in jax-ml/jax `jax/_src/xla_bridge.py` (jax 0.10.2)."""

_NS = 1e9


class Span(NamedTuple):
    """From when to when something happens. Nanoseconds."""

    begin_ns: int
    end_ns: int


class Timeline:
    """The streams of `devices` and the links to their host.

    `link_of` names for each device the link that it uses: those of one chip share it. `bytes_per_s` is
    the rate of a link in each direction; None where it is not known: transfers then take no time, and
    `untimed_bytes` counts them. No latency is added to a transfer, for no source gives one.
    """

    def __init__(
        self,
        devices: Iterable[int],
        link_of: Mapping[int, int] | None = None,
        bytes_per_s: float | None = None,
        most_in_flight: int = MOST_IN_FLIGHT,
    ) -> None:
        self._link_of = link_of or {}
        self._bytes_per_s = bytes_per_s
        self._most_in_flight = most_in_flight
        self._in_flight = {d: deque[int](maxlen=most_in_flight) for d in devices}
        self._free = dict.fromkeys(self._in_flight, 0)
        self._executed, self._arrived = _Ends(), _Ends()
        self._lanes: dict[tuple[int, bool], LinkLane] = {}
        self.untimed_bytes = 0

    def room(self, at_ns: int, devices: Sequence[int]) -> int:
        """When the host that asks at `at_ns` may dispatch: so far as it may be ahead of the devices."""
        for device in devices:
            ends = self._in_flight[device]
            if len(ends) == self._most_in_flight and ends[0] > at_ns:
                at_ns = ends[0]
        return at_ns

    def execute(
        self, at_ns: int, number: int, devices: Sequence[int], length_ns: int, awaits: int = 0
    ) -> Span:
        """Execution `number`, dispatched at `at_ns`, on `devices` at once. `awaits`: the transfer."""
        free = self._free
        begin = max(at_ns, self._arrived.of(awaits))
        for device in devices:
            begin = max(begin, free[device])
        end = begin + length_ns
        for device in devices:
            free[device] = end
            self._in_flight[device].append(end)
        self._executed.note(number, end)
        return Span(begin, end)

    def send(self, at_ns: int, number: int, device: int, size: int) -> Span:
        """Transfer `number`: `size` bytes from the host to a device."""
        span = self._carry(at_ns, device, size, to_host=False)
        self._arrived.note(number, span.end_ns)
        return span

    def fetch(self, at_ns: int, device: int, size: int) -> Span:
        """`size` bytes from a device to the host. `at_ns`: not before what is read is there."""
        return self._carry(at_ns, device, size, to_host=True)

    def arrive(self, at_ns: int, number: int) -> None:
        """Transfer `number` is done at `at_ns`: one that crosses no link to the host."""
        self._arrived.note(number, at_ns)

    def done(self, execution: int, transfer: int) -> int:
        """When both an execution and a transfer are done, by number; 0 stands for none."""
        return max(self._executed.of(execution), self._arrived.of(transfer))

    def _carry(self, at_ns: int, device: int, size: int, *, to_host: bool) -> Span:
        if self._bytes_per_s is None:
            self.untimed_bytes += size
            return Span(at_ns, at_ns)
        link = self._link_of.get(device, device)
        lane = self._lanes.setdefault((link, to_host), LinkLane())
        length = round(size / self._bytes_per_s * _NS)
        begin = lane.carry(at_ns, length)
        return Span(begin, begin + length)


class _Ends:
    """When what is numbered from 1 is done; what nobody noted was done before all began."""

    def __init__(self) -> None:
        self._ends = array("q", [0])

    def note(self, number: int, end_ns: int) -> None:
        missing = number + 1 - len(self._ends)
        if missing > 0:
            self._ends.extend([0] * missing)
        self._ends[number] = end_ns

    def of(self, number: int) -> int:
        return self._ends[number] if number < len(self._ends) else 0
