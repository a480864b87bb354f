"""Traces for the packers: hard ones whose optimum is known, random ones, and real ones.

The hard instances have the form that MiniMalloc's authors describe (ASPLOS 2023): lines of
`id,lower,upper,size`, half-open in time, a capacity, and at equal times frees before allocations. They
are made by cutting a rectangle of time by addresses into pieces, so that a packing without any waste
exists and the smallest heap is the capacity.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from vtpu.hbm.packing import Event, Packing, Trace

HEAP_TRACES = sorted((Path(__file__).parent / "heap_traces").glob("*.json"))
HEADER = "id,lower,upper,size"


@dataclass(frozen=True)
class Buffer:
    lower: int
    upper: int
    size: int
    offset: int  # in the planted packing


@dataclass(frozen=True)
class Instance:
    buffers: tuple[Buffer, ...]
    capacity: int

    def to_csv(self) -> str:
        lines = [f"{i},{b.lower},{b.upper},{b.size}" for i, b in enumerate(self.buffers)]
        return "\n".join([HEADER, *lines]) + "\n"

    @property
    def planted(self) -> Packing:
        return Packing({i: b.offset for i, b in enumerate(self.buffers)}, self.capacity)


def read_csv(text: str) -> Trace:
    header, *lines = text.split()
    assert header == HEADER
    steps: list[tuple[int, int, Event]] = []
    for line in lines:
        buffer, lower, upper, size = map(int, line.split(","))
        steps.append((lower, 1, Event.allocate(buffer, size)))
        steps.append((upper, 0, Event.free(buffer)))
    steps.sort(key=lambda step: step[:2])
    return Trace(tuple(event for _, _, event in steps))


def hard_instance(seed: int, pieces: int, time: int = 1000, capacity: int = 1024) -> Instance:
    """A rectangle cut into at least `pieces` rectangles, by straight cuts and by pinwheels."""
    rng = random.Random(seed)
    whole = [Buffer(0, time, capacity, 0)]
    while len(whole) < pieces:
        largest = max(range(len(whole)), key=lambda i: _area(whole[i]) * rng.random())
        whole += _cut(whole.pop(largest), rng)
    rng.shuffle(whole)
    return Instance(tuple(whole), capacity)


def _area(b: Buffer) -> int:
    return (b.upper - b.lower) * b.size


def _cut(b: Buffer, rng: random.Random) -> list[Buffer]:
    if rng.random() < 0.4 and b.upper - b.lower >= 3 and b.size >= 3:
        return _pinwheel(b, rng)
    if rng.random() < 0.5 and b.size >= 2:
        low = rng.randrange(1, b.size)
        return [
            Buffer(b.lower, b.upper, low, b.offset),
            Buffer(b.lower, b.upper, b.size - low, b.offset + low),
        ]
    if b.upper - b.lower >= 2:
        when = rng.randrange(b.lower + 1, b.upper)
        return [
            Buffer(b.lower, when, b.size, b.offset),
            Buffer(when, b.upper, b.size, b.offset),
        ]
    return [b]


def _pinwheel(b: Buffer, rng: random.Random) -> list[Buffer]:
    """Five pieces that no straight cut separates: four around one."""
    t0, t3 = b.lower, b.upper
    t1, t2 = sorted(rng.sample(range(t0 + 1, t3), 2))
    y1, y2 = sorted(rng.sample(range(1, b.size), 2))
    return [
        Buffer(t0, t2, y1, b.offset),
        Buffer(t2, t3, y2, b.offset),
        Buffer(t1, t3, b.size - y2, b.offset + y2),
        Buffer(t0, t1, b.size - y1, b.offset + y1),
        Buffer(t1, t2, y2 - y1, b.offset + y1),
    ]


def trace_of(text: str, alignment: int = 1) -> Trace:
    """`A a[4] S b=a F a`: allocate, share, free. A buffer that shares is as large as the other."""
    words = iter(text.split())
    ids: dict[str, int] = {}
    sizes: dict[str, int] = {}
    events: list[Event] = []
    for kind in words:
        name, _, rest = next(words).replace("[", "=").replace("]", "").partition("=")
        number = ids.setdefault(name, len(ids))
        if kind == "A":
            sizes[name] = int(rest)
            events.append(Event.allocate(number, sizes[name]))
        elif kind == "S":
            sizes[name] = sizes[rest]
            events.append(Event.share(number, sizes[name], ids[rest]))
        else:
            events.append(Event.free(number))
    return Trace(tuple(events), alignment)


def real_trace(path: Path) -> tuple[Trace, dict[str, Any]]:
    """A heap trace of the TPU compiler, and all that was measured with it."""
    data = json.loads(path.read_text())
    sizes = {int(buffer): size for buffer, size in data["size"].items()}
    kinds = (
        lambda buffer, _: Event.allocate(buffer, sizes[buffer]),
        lambda buffer, _: Event.free(buffer),
        lambda buffer, shares: Event.share(buffer, sizes[buffer], shares),
    )
    events = tuple(kinds[kind](buffer, shares) for kind, buffer, shares in data["events"])
    return Trace(events, data["alignment"]), data


SIZES, ALIGNMENTS = st.integers(0, 40), st.sampled_from([1, 4, 16])


@st.composite
def traces(draw, sizes=SIZES, alignments=ALIGNMENTS, most=25):
    """Any trace: buffers of no bytes, groups of different sizes and with holes, some never freed."""
    events: list[Event] = []
    alive: list[int] = []
    known = 0
    for _ in range(draw(st.integers(0, most))):
        what = draw(st.sampled_from("AAASFFF"))
        if what == "F" and alive:
            events.append(Event.free(alive.pop(draw(st.integers(0, len(alive) - 1)))))
            continue
        if what == "S" and known:
            events.append(Event.share(known, draw(sizes), draw(st.integers(0, known - 1))))
        else:
            events.append(Event.allocate(known, draw(sizes)))
        alive.append(known)
        known += 1
    return Trace(tuple(events), draw(alignments))
