"""Made-up programs with times: operations of a core, transfers beside it, loops; and what a machine makes
of them, so that what is said of a time can be compared with running it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from vtpu.clock.program_time import Estimate, Lane, OperationTime, Pass, ProgramTime, Source, Span
from vtpu.clock.resources import Resource
from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout
from vtpu.program.locations import Frame
from vtpu.program.modules import Computation, Instruction, Module
from vtpu.program.shapes import ArrayShape

ENTRY = 1
PEAK_FLOPS, HBM_BYTES = 1e12, 1e11
_SHAPE = ArrayShape(ElementType.F32, (8, 128), Layout((1, 0), ((8, 128),)))
_LANES = {
    Lane.MEMORY: Resource.HBM,
    Lane.LINKS: Resource.ICI,
    Lane.TO_HOST: Resource.HOST_LINK,
}
_CORE = (Resource.MXU, Resource.VPU, Resource.HBM)


@dataclass(frozen=True)
class Compute:
    """An operation of the core: what each resource needs for it, in ticks."""

    busy: dict[Resource, int]


@dataclass(frozen=True)
class Start:
    """Begins a transfer; `done` says behind how many further events the core needs it."""

    lane: Lane
    ticks: int
    done: int


@dataclass(frozen=True)
class Sync:
    """A collective for which the core waits at once."""

    ticks: int


@dataclass(frozen=True)
class Loop:
    """Events that run several times, one after the other."""

    events: tuple[Event, ...]
    times: int


Event = Compute | Start | Sync | Loop

ticks = st.integers(1, 50)
computes = st.builds(
    Compute, st.dictionaries(st.sampled_from(_CORE), st.integers(1, 50), min_size=1)
)
starts = st.builds(Start, st.sampled_from(sorted(_LANES)), ticks, st.integers(0, 5))
simple = st.one_of(computes, computes, starts, st.builds(Sync, ticks))
events = st.lists(
    st.one_of(
        simple,
        simple,
        st.builds(Loop, st.lists(simple, min_size=1, max_size=5).map(tuple), st.integers(1, 4)),
    ),
    min_size=1,
    max_size=10,
)


def ticks_of(made: Sequence[Event], without: Resource | None = None) -> int:
    """How long a machine takes for events, by running them; without a resource if one is named."""
    now = 0
    free: dict[Lane, int] = {}
    flying: list[tuple[int, int]] = []  # behind which event, when it ends
    for place, event in enumerate(made):
        match event:
            case Compute(busy):
                now += max((t for r, t in busy.items() if r is not without), default=0)
            case Loop(inner, times):
                now += times * ticks_of(inner, without)
            case Sync(length):
                now = max(now, free.get(Lane.LINKS, 0)) + (0 if without is Resource.ICI else length)
                free[Lane.LINKS] = now
            case Start(lane, length, done):
                begin = max(now, free.get(lane, 0))
                free[lane] = begin + (0 if without is _LANES[lane] else length)
                flying.append((place + done, free[lane]))
        now = max([now, *(end for behind, end in flying if behind == place)])
        flying = [f for f in flying if f[0] > place]
    return max([now, *(end for _, end in flying)])


@dataclass
class _Making:
    """Writes events as instructions with times, in ticks of a millisecond."""

    instructions: dict[int, list[Instruction]] = field(default_factory=dict[int, list[Instruction]])
    passes: dict[int, Pass] = field(default_factory=dict[int, Pass])
    operations: dict[int, OperationTime] = field(default_factory=dict[int, OperationTime])
    ids: int = 100

    def new(self) -> int:
        self.ids += 1
        return self.ids

    def computation(self, number: int, made: Sequence[Event], runs: int) -> float:
        run = _Run(self, number, runs)
        for event in made:
            run.event(event)
        run.land(all_of_them=True)
        self.passes[number] = Pass(number, run.now, tuple(run.spans), run.inner)
        self.instructions[number] = run.instructions
        return run.now


@dataclass
class _Run:
    making: _Making
    number: int
    runs: int
    now: float = 0.0
    place: int = 0
    spans: list[Span] = field(default_factory=list[Span])
    inner: dict[int, tuple[int, float]] = field(default_factory=dict[int, tuple[int, float]])
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    free: dict[Lane, float] = field(default_factory=dict[Lane, float])
    flying: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    def event(self, event: Event) -> None:
        match event:
            case Compute(busy):
                seconds = {r: t / 1000 for r, t in busy.items()}
                length = max(seconds.values())
                number = self._add("add", length, seconds, Source.CYCLES)
                self.spans.append(Span(number, Lane.CORE, self.now, self.now + length))
                self.now += length
            case Sync(length):
                number = self._add("all-reduce", length / 1000, {Resource.ICI: length / 1000})
                begin = max(self.now, self.free.get(Lane.LINKS, 0.0))
                self.now = self.free[Lane.LINKS] = begin + length / 1000
                self.spans.append(Span(number, Lane.LINKS, begin, self.now))
            case Start(lane, length, done):
                number = self._add("copy-start", length / 1000, {_LANES[lane]: length / 1000})
                begin = max(self.now, self.free.get(lane, 0.0))
                self.free[lane] = begin + length / 1000
                self.flying.append((self.place + done, number, len(self.spans)))
                self.spans.append(Span(number, lane, begin, self.free[lane]))
            case Loop(made, times):
                called = self.making.new()
                each = self.making.computation(called, made, self.runs * times)
                number = self._add("while", 0.0, {}, called=(called,))
                self.inner[number] = (called, each)
                self.spans.append(Span(number, Lane.CORE, self.now, self.now + times * each))
                self.now += times * each
        self.land()
        self.place += 1

    def land(self, *, all_of_them: bool = False) -> None:
        """What the core needs now must have ended."""
        for behind, start, at in self.flying:
            if all_of_them or behind == self.place:
                span = self.spans[at]
                waited = max(0.0, span.end - self.now)
                self.spans[at] = Span(start, span.lane, span.start, span.end, waited)
                self.now += waited
                self._add("copy-done", 0.0, {}, Source.NOTHING, operands=(start,))
        self.flying = [f for f in self.flying if not all_of_them and f[0] > self.place]

    def _add(
        self,
        opcode: str,
        seconds: float,
        busy: dict[Resource, float],
        source: Source = Source.WORK,
        operands: tuple[int, ...] = (),
        called: tuple[int, ...] = (),
    ) -> int:
        number = self.making.new()
        place = Frame("/p/train.py", "step", 1 + number % 3)
        path = ("jit(s)/jvp(a)/add", "jit(s)/transpose(jvp(a))/add", "jit(s)/add")[number % 3]
        instruction = Instruction(
            id=number,
            name=f"{opcode}.{number}",
            opcode=opcode,
            shape=_SHAPE,
            operands=operands,
            called=called,
            op_name=path,
            place=place,
        )
        self.instructions.append(instruction)
        self.making.operations[number] = OperationTime(
            instruction=number,
            computation=self.number,
            runs=self.runs,
            time=Estimate(seconds, 0.9 * seconds, 1.1 * seconds),
            bound=max(busy, key=lambda r: busy[r]) if busy else None,
            source=source,
            busy=busy,
            flops=round(busy.get(Resource.MXU, 0.0) * PEAK_FLOPS / 2),
            hbm_bytes=round(busy.get(Resource.HBM, 0.0) * HBM_BYTES / 2),
            link_bytes=round(busy.get(Resource.ICI, 0.0) * 1e9),
        )
        return number


def timed(made: Sequence[Event]) -> tuple[Module, ProgramTime]:
    """The events as a module and the time of one execution of it."""
    making = _Making()
    seconds = making.computation(ENTRY, made, 1)
    computations = {
        number: Computation(
            id=number, name=f"c{number}", instructions=tuple(made), root=made[-1].id
        )
        for number, made in making.instructions.items()
    }
    operations = making.operations
    time = ProgramTime(
        total=Estimate(seconds, 0.9 * seconds, 1.1 * seconds),
        core_busy=0.0,
        exposed={},
        operations=operations,
        passes=making.passes,
        entry=ENTRY,
        without_model=(),
        unmodelled_flops=0,
        unmodelled_bytes=0,
        flops=sum(round((o.flops or 0) * o.runs) for o in operations.values()),
        hbm_bytes=sum(round((o.hbm_bytes or 0) * o.runs) for o in operations.values()),
        peak_flops_per_s=PEAK_FLOPS,
        hbm_bytes_per_s=HBM_BYTES,
        calibration="made up",
    )
    return Module(name="m", entry=ENTRY, computations=computations), time
