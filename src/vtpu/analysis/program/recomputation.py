"""Whether computing again (`jax.checkpoint`) lowers what a program needs.

It does not where everything is computed again at once, for then all of it is alive again; and not where the
peak is elsewhere, and would be even if all that is computed again were kept instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vtpu.analysis.program.memory import MemoryUsage, SpaceUsage
from vtpu.analysis.program.saved_activations import Kept, find_kept, is_recomputed_at_once
from vtpu.analysis.source_lines import UserLines
from vtpu.program.modules import Instruction, Module
from vtpu.program.op_names import Phase, phase_of
from vtpu.program.shapes import ArrayShape, leaves
from vtpu.program.trip_counts import runs

_ALMOST_ALL = 0.9
_MOST = 0.5
_MARGIN = 1.02  # what the compiler would place otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakElsewhere:
    """The peak beside what computing again could have freed, bytes.

    `most_kept` bounds what the program would keep instead, `most_there` what is alive at most between the
    forward pass and the end of the backward pass. `where` is the instruction at the peak.
    """

    peak_bytes: int
    most_there: int
    most_kept: int
    where: str


def recomputed_at_once(
    module: Module, usage: MemoryUsage, lines: UserLines | None = None
) -> tuple[Kept, ...]:
    """What is computed again all at once and fills the peak; empty where that is not most of it."""
    hbm = usage.hbm
    if hbm is None:
        return ()
    found = find_kept(module, usage, lines, Phase.RECOMPUTED)
    at_peak = sum(kept.bytes for kept in found)
    whole = sum(i.bytes for i in hbm.items if _is_at_once(i.op_name))
    rest = hbm.peak_bytes - sum(i.bytes for i in hbm.items if i.occupant.end - i.occupant.start >= len(usage.order) - 1)  # fmt: skip
    if not at_peak or at_peak < whole * _ALMOST_ALL or at_peak < rest * _MOST:
        return ()
    return found


def _is_at_once(op_name: str) -> bool:
    return phase_of(op_name) is Phase.RECOMPUTED and is_recomputed_at_once(op_name)


def peak_elsewhere(module: Module, usage: MemoryUsage) -> PeakElsewhere | None:
    """The bound that shows that computing again frees nothing; None where it may."""
    hbm = usage.hbm
    most_kept = _most_kept(module)
    if hbm is None or not most_kept:
        return None
    there = _differentiated(module, hbm, usage)
    most_there = int(hbm.live[there[0] : there[1] + 1].max()) if there else None
    if most_there is None or (most_there + most_kept) * _MARGIN > hbm.peak_bytes:
        return None
    return PeakElsewhere(
        peak_bytes=hbm.peak_bytes,
        most_there=most_there,
        most_kept=most_kept,
        where=usage.order[hbm.peak],
    )


def _differentiated(module: Module, hbm: SpaceUsage, usage: MemoryUsage) -> tuple[int, int] | None:
    """From the first instruction of the forward pass to the last of the backward pass."""
    by_name = {i.name: i for _, i in module.program_order()}
    phases = [phase_of(by_name[name].op_name) for name in usage.order]
    places = [n for n, phase in enumerate(phases) if phase is not Phase.OTHER]
    return (places[0], places[-1]) if places and len(hbm.live) else None


def _most_kept(module: Module) -> int | None:
    """Bytes of everything that is computed again, as if each value were an array of its own in HBM.

    None where it is not known how often a loop runs.
    """
    times = _runs(module)
    total = 0.0
    for computation in module.computations.values():
        for instruction in computation.instructions:
            if phase_of(instruction.op_name) is not Phase.RECOMPUTED:
                continue
            count = times.get(computation.id)
            if count is None:
                return None
            total += count * _bytes(instruction)
    return round(total)


def _bytes(instruction: Instruction) -> int:
    arrays = (s for _, s in leaves(instruction.shape) if isinstance(s, ArrayShape))
    return sum(shape.padded_bytes for shape in arrays)


def _runs(module: Module) -> Mapping[int, float | None]:
    """How often each computation runs, also those of fusions and reducers."""
    found = dict(runs(module))
    waiting = list(found)
    for number in waiting:
        computation = module.computations.get(number)
        for instruction in computation.instructions if computation else ():
            for called in instruction.called:
                if called not in found:
                    found[called] = found[number]
                    waiting.append(called)
    return found
