"""How long one execution of a program takes on the chip, operation by operation. Times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vtpu.clock.resources import Resource


@dataclass(frozen=True, slots=True, order=True)
class Estimate:
    """A modelled time: the likely value and the band that it is expected in. Seconds."""

    seconds: float
    low: float
    high: float


class Source(StrEnum):
    """What an operation's time was computed from."""

    CYCLES = "the compiler's cycles, calibrated"
    WORK = "FLOPs and bytes over the chip's rates, calibrated"
    COLLECTIVE = "bytes over the links of the torus, calibrated"
    LINK = "bytes over the host link"
    KERNEL = "the kernel's own FLOPs and bytes, calibrated"
    NOTHING = "nothing to do on the chip"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationTime:
    """One instruction of the schedule.

    `runs` is how often one execution of the program comes to it. The rest is for one run: `time` alone
    on the chip, None when there is no model for it; `busy` how long each resource would need alone;
    `bound` the one that decides. `flops` counts a multiply-add as two; bytes are padded. None is
    unknown.
    """

    instruction: int
    computation: int
    runs: float
    time: Estimate | None
    bound: Resource | None
    source: Source | None
    busy: Mapping[Resource, float] = field(default_factory=dict[Resource, float])
    flops: int | None = None
    hbm_bytes: int | None = None
    link_bytes: int = 0


class Lane(StrEnum):
    """What runs at the same time as the others on one chip."""

    CORE = "TensorCore"
    MEMORY = "HBM to VMEM"  # copies that the compiler lets run beside the core
    LINKS = "ICI"
    NETWORK = "DCN"
    TO_HOST = "to host"
    FROM_HOST = "from host"


@dataclass(frozen=True, slots=True)
class Span:
    """When an instruction ran, from the start of its computation's first pass, on which lane.

    Of an asynchronous operation it reaches from start to end of the transfer itself; `waited` is what the
    core then waited for it at its done instruction.
    """

    instruction: int
    lane: Lane
    start: float
    end: float
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass through a computation's instructions: how long, and when each ran.

    A loop's body is one pass that repeats. A span of a `while`, `call` or `conditional` covers all passes
    of the computation that it calls: `inner` says which, how often, and how long one takes.
    """

    computation: int
    seconds: float
    spans: tuple[Span, ...]
    inner: Mapping[int, tuple[int, float]] = field(default_factory=dict[int, tuple[int, float]])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTime:
    """One execution of a program.

    `operations` are all instructions of the schedule, by instruction id. `passes` are by computation.
    `core_busy` is the time in which the core computes, `exposed` for each resource the time in which the
    core waits for it alone; they sum to `total.seconds`. `without_model` are ids whose time is unknown:
    the total does not have them, and `unmodelled_flops` and `unmodelled_bytes` say how much they do.
    `uncounted_loops` are `while` instructions of which nothing tells how often they run: they count once.
    `peak_flops_per_s` is the device's for the types that the program multiplies, `hbm_bytes_per_s` its HBM's.
    """

    total: Estimate
    core_busy: float
    exposed: Mapping[Resource, float]
    operations: Mapping[int, OperationTime]
    passes: Mapping[int, Pass]
    entry: int
    without_model: tuple[int, ...]
    uncounted_loops: tuple[int, ...] = ()
    unmodelled_flops: int
    unmodelled_bytes: int
    flops: int
    hbm_bytes: int
    peak_flops_per_s: float
    hbm_bytes_per_s: float
    calibration: str

    @property
    def is_lower_bound(self) -> bool:
        """Whether something that the program does has no time in the total, or too little."""
        return bool(self.without_model or self.uncounted_loops)
