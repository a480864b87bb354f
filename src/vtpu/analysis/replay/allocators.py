"""Allocators that a run can be replayed under: their limits, and what of them is public or assumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from vtpu.analysis.replay.replay import MakeAllocator
from vtpu.chips import Generation, Slice, UnknownSlice, parse_slice
from vtpu.errors import UsageError
from vtpu.hbm import (
    AllocatorName,
    Arena,
    Bfc,
    Compaction,
    End,
    Fit,
    Reservations,
    TpuAssumptions,
    TwoEndedArena,
)
from vtpu.recording.recording import Recording
from vtpu.units import GIB, format_bytes

_QUANTUM = 512
_JAX_FRACTION = 0.75  # XLA_CLIENT_MEM_FRACTION's default


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorFacts:
    """What a run was replayed under. `limit_bytes` is what the allocator may use of `hbm_bytes`, a
    device's usable HBM on `slice`; `fraction` is their ratio, null where there is none to choose.
    """

    name: str
    slice: str
    hbm_bytes: int
    limit_bytes: int
    fraction: float | None
    public: tuple[str, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """One property of the model that is not public, assumed otherwise."""

    what: str
    make: MakeAllocator


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorChoice:
    """An allocator with its limit. `is_two_ended`: programs reserve at the bottom of memory.
    `has_regions`: neighbours in memory need not be neighbours for it.
    """

    facts: AllocatorFacts
    make: MakeAllocator
    variations: tuple[Variation, ...] = ()
    is_two_ended: bool = False
    has_regions: bool = False


def choose_allocator(
    recording: Recording,
    name: AllocatorName,
    *,
    fraction: float | None = None,
    on: str | None = None,
) -> AllocatorChoice:
    """The allocator on the chips of slice `on`; by default those of the recording.

    Raises:
        UsageError: the fraction is not in (0, 1], or there is none to choose; the slice has other
            numbers of devices than the recorded one.
        UnknownSlice: `on` is no slice.
    """
    if fraction is not None and not 0 < fraction <= 1:
        raise UsageError(
            f"--fraction {fraction:g} is not a part of memory: it is above 0 and at most 1"
        )
    target = _target(recording, on)
    if name is AllocatorName.TPU:
        if fraction is not None:
            raise UsageError(
                "--fraction is for --allocator bfc and growth: the TPU runtime has all of HBM"
            )
        return _tpu(target)
    default = _JAX_FRACTION if name is AllocatorName.BFC else 1.0
    return _bfc(target, name, fraction or default)


# ---- chips -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Target:
    slice: str
    hbm_bytes: int
    assumptions: tuple[str, ...] = ()


def _target(recording: Recording, on: str | None) -> _Target:
    run = recording.run
    if on is None:
        return _Target(run.slice, run.hbm_bytes)
    chosen = parse_slice(on)
    _check_devices(recording, chosen)
    recorded = _generation_of(run.slice)
    if recorded is chosen.generation:
        return _Target(chosen.name, run.hbm_bytes)
    name = chosen.generation.name
    limit_gib = chosen.generation.chip.hbm_limit_gib_per_device
    hbm_bytes = int(limit_gib.value * GIB) // _QUANTUM * _QUANTUM
    return _Target(
        chosen.name,
        hbm_bytes,
        (
            (
                f"Arrays and temporaries have the sizes that the compiler chose for {run.slice}: for {name} "
                "it may choose other layouts and other temporaries. Run the program with "
                f"`vtpu run --on {chosen.name}` to have its own."
            ),
            (
                f"Usable HBM of {name} is {limit_gib.value:g} GiB per device, as its compiler prints it, to "
                "two decimals."
            ),
        ),
    )


def _generation_of(slice_name: str) -> Generation | None:
    try:
        return parse_slice(slice_name).generation
    except UnknownSlice:  # the recording is of another release
        return None


def _check_devices(recording: Recording, chosen: Slice) -> None:
    """That the recorded program would have found as many devices, here and in all."""
    run = recording.run
    num_here = sum(d.host == run.host for d in run.devices)
    recorded = (len(run.devices), num_here)
    given = (chosen.num_devices, chosen.devices_per_host)
    if recorded != given:
        raise UsageError(
            f"the recording is of {run.slice} with {recorded[0]} devices, {recorded[1]} of them on this "
            f"host; {chosen.name} has {given[0]}, {given[1]} on a host: the program would have split its "
            f"arrays otherwise. Run it there: `vtpu run --on {chosen.name}`"
        )


# ---- the TPU runtime ---------------------------------------------------------------------------

_TPU_PUBLIC = (
    (
        "A program's temporaries are reserved as one block at the bottom of memory, apart from buffers "
        "(messages of the runtime)."
    ),
    (
        "A buffer that finds no room may have memory defragmented and programs evicted; a program that "
        "finds none is promised nothing (openxla.org, error codes E0100 and E0101)."
    ),
)
_TPU_ASSUMED = (
    (
        "The TPU runtime's allocator is not public. Assumed: buffers are carved from the high end of the "
        "smallest free piece that holds them, in multiples of 512 bytes; nothing is moved; a program holds "
        "its temporaries while it runs, and nothing more."
    ),
)


def _tpu(target: _Target) -> AllocatorChoice:
    def varied(**properties: object) -> MakeAllocator:
        assumptions = replace(TpuAssumptions(), **properties)  # type: ignore[arg-type]
        return lambda: TwoEndedArena(target.hbm_bytes, assumptions)

    variations = {
        "buffers take the first free piece from the high end": varied(fit=Fit.FIRST),
        "buffers take the largest free piece": varied(fit=Fit.WORST),
        "buffers fill memory from the low end, programs reserve at the high end": varied(
            end=End.LOW
        ),
        "sizes are multiples of 4 KiB": varied(quantum_bytes=4096),
        "buffers are moved together when one finds no room": varied(
            compaction=Compaction.FOR_BUFFERS
        ),
        "buffers are moved together also when a program finds no room": varied(
            compaction=Compaction.FOR_ANYTHING
        ),
        "programs keep their temporaries until a buffer needs the room": varied(
            reservations=Reservations.PER_PROGRAM
        ),
    }
    return AllocatorChoice(
        facts=AllocatorFacts(
            name="tpu",
            slice=target.slice,
            hbm_bytes=target.hbm_bytes,
            limit_bytes=target.hbm_bytes,
            fraction=None,
            public=_TPU_PUBLIC,
            assumptions=(*_TPU_ASSUMED, *target.assumptions),
        ),
        make=lambda: Arena(target.hbm_bytes),
        variations=tuple(Variation(what=what, make=make) for what, make in variations.items()),
        is_two_ended=True,
    )


# ---- BFC ---------------------------------------------------------------------------------------

_BFC_PUBLIC = (
    (
        "Chunks are multiples of 256 bytes, taken from the smallest free one that holds them; one that is "
        "less than twice as large and less than 128 MiB larger is given whole (openxla/xla, "
        "bfc_allocator.cc)."
    ),
    "A program's temporaries are one chunk of the same pool, freed after its run.",
)


def _bfc(target: _Target, name: AllocatorName, fraction: float) -> AllocatorChoice:
    limit = int(target.hbm_bytes * fraction)
    grows = name is AllocatorName.GROWTH
    if limit < _QUANTUM:
        raise UsageError(
            f"--fraction {fraction:g} leaves {format_bytes(limit)}: too little for a pool"
        )
    make: Callable[[], Bfc] = lambda: Bfc(limit, growth=grows, garbage_collection=grows)  # noqa: E731
    how = (
        "TensorFlow's allow_growth: regions from 2 MiB on, doubling, up to the limit; idle ones are "
        "given back when that makes room."
        if grows
        else "JAX's preallocation: one region of the limit from the start, nothing is given back."
    )
    assumed = [
        (
            "Arrays and temporaries have the sizes that the TPU's compiler gave them: on a GPU nothing is "
            "padded to tiles, and temporaries are others."
        ),
        *target.assumptions,
    ]
    if grows and fraction == 1:
        assumed.append(
            "TensorFlow leaves 225 to 1,800 MiB of a GPU to the system; here the limit is all of usable "
            "HBM (choose another with --fraction)."
        )
    return AllocatorChoice(
        facts=AllocatorFacts(
            name=str(name),
            slice=target.slice,
            hbm_bytes=target.hbm_bytes,
            limit_bytes=make().limit,
            fraction=fraction,
            public=(*_BFC_PUBLIC, how),
            assumptions=tuple(assumed),
        ),
        make=make,
        has_regions=grows,
    )
