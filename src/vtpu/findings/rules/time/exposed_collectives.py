"""Collectives that the core waits for."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.bottlenecks.communication import Purpose, Waits, waits_for_collectives
from vtpu.analysis.program.pieces import pieces_of
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, seconds, share
from vtpu.findings.rule import Group, Rule
from vtpu.findings.step_cost import of_time
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import at, place
from vtpu.units import format_seconds

_LEAST = 0.01  # of the step


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all collectives of a program that the core waits for."""
    time, waits = subject.report.time, _waits(subject)
    total = sum(w.seconds for w in waits)
    if time is None or not waits or total < _LEAST * time.seconds:
        return
    worst, core = waits[0], time.time.core_busy
    yield Finding(
        rule=RULE.slug,
        severity=of_time(min(total, core), subject),
        title=f"the core waits {format_seconds(total)} of {format_seconds(time.seconds)} for collectives, most "
        f"for {worst.kind} of {worst.purpose}{at(worst.line)}",
        change=_change(worst, is_most_of_step=total > core),
        evidence=(
            Evidence(what="of the step", amount=share(total / time.seconds, Basis.MODELLED)),
            Evidence(what="the core computes", amount=seconds(core)),
            *(_evidence(w) for w in waits if w.seconds >= _LEAST * total),
        ),
        cost=Cost(step=seconds(total)),
        line=worst.line,
        program=subject.name,
    )


def _waits(subject: ProgramSubject) -> tuple[Waits, ...]:
    """The collectives of a program; those that nobody asked for are another finding."""
    report, module = subject.report, subject.module
    if report.time is None or report.memory is None or module is None:
        return ()
    apart = {r.row.instruction.id for r in subject.reshards}
    rows = [row for row in report.time.rows if row.instruction.id not in apart]
    return waits_for_collectives(module, rows, pieces_of(module)[0])


def _evidence(waits: Waits) -> Evidence:
    what = f"{waits.kind} of {waits.purpose} over {waits.devices} devices, {waits.runs:g} times"
    return Evidence(what=what, amount=seconds(waits.seconds), line=waits.line)


def _change(worst: Waits, *, is_most_of_step: bool) -> str:
    if is_most_of_step:
        return (
            "links are busy for longer than the core: give each device more work for the same bytes, with a "
            f"larger batch on each or fewer than {worst.devices} devices along this axis of the mesh"
        )
    return _CHANGES[worst.purpose].format(devices=worst.devices, place=place(worst.line))


_CHANGES = {
    Purpose.GRADIENTS: "sum gradients less often for the same work: a larger batch on each device, or several "
    "batches accumulated before the sum of {place}; sum them in bfloat16",
    Purpose.PARAMETERS: "gather parameters for more work: a larger batch on each device, or parameters sharded "
    "over fewer than {devices} devices and copied between these groups",
    Purpose.ACTIVATIONS: "put fewer than {devices} devices on the axis of the mesh over which {place} is cut, and "
    "more on that of the batch, or run two halves of the batch one behind the other so that one computes "
    "while the other is on the links",
    Purpose.PIECES: "the compiler cuts the product of {place} into pieces that it passes around: larger pieces "
    "(a larger batch on each device) cover their own way, and "
    "`xla_jf_spmd_threshold_for_windowed_einsum_mib` makes it gather the whole first",
    Purpose.EXCHANGE: "exchange at {place} less or later: larger batches on each device, parts that are sent "
    "while others are computed, or an axis of the mesh with fewer than {devices} devices",
}

RULE = Rule(
    code="T403",
    slug="exposed-collectives",
    group=Group.TIME,
    title="The core waits for collectives",
    why="A collective runs on the links beside the core. Where nothing is left to compute that does not need "
    "its result, the core waits. How long depends on the bytes, the devices that take part and their place "
    "in the torus; what there is to compute meanwhile depends on the batch of each device.",
    change="More work for the same bytes (a larger batch on each device, accumulated gradients), fewer devices "
    "on the axis of the mesh, fewer bytes (bfloat16), or an order that computes something else meanwhile.",
    limits="Times of collectives are modelled from links and bytes and less certain than those of the core. "
    "The compiler's schedule is taken as it is: what runs at the same time on the chip beyond that is not "
    "seen. How bad it is goes by what computing could cover, so of a program that does little else it is low.",
    fixes=("batch-size", "accumulate", "mesh-order", "shard-parameters", "flags"),
    in_program=find,
)
