"""Programs whose devices all compute the same, because the batch is not split."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.redundancy import Redundancy, find_redundancy
from vtpu.analysis.program.spread import Spread
from vtpu.evidence import Basis
from vtpu.findings.arguments import axis_in_source, line_of, num_devices, spreads
from vtpu.findings.finding import (
    Amount,
    Cost,
    Evidence,
    Finding,
    Severity,
    Unit,
    hbm_bytes,
    seconds,
)
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import listed
from vtpu.units import format_flops

_LEAST_FLOPS = 10**9  # less is not worth a split
_LEAST_S = 100e-6


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """The devices that do the same work, and the arguments that should be split."""
    redundancy = find_redundancy(subject.module, num_devices(subject)) if subject.module else None
    flops = subject.report.time.time.flops if subject.report.time else None
    if redundancy is None or flops is None or flops < _LEAST_FLOPS:
        return
    batch = [s for s in spreads(subject) if s.item.role is Role.BATCH and s.shape.dims]
    if not batch:
        return
    step = subject.step_s or 0.0
    saved = step * (1 - 1 / redundancy.times)
    severity = by_share(saved, step)
    axis = redundancy.axis or axis_in_source(subject) or "axis"
    yield Finding(
        rule=RULE.slug,
        severity=severity if saved >= _LEAST_S else min(severity, Severity.LOW),
        title=f"{redundancy.times} devices all compute the same {format_flops(flops)} of {subject.name}: "
        f"{listed(s.item.name for s in batch)} is whole on each",
        change=_change(redundancy.times, axis, batch),
        evidence=tuple(_evidence(redundancy, batch, flops)),
        cost=Cost(step=seconds(saved)),
        line=line_of(subject),
        program=subject.name,
    )


def _change(times: int, axis: str, batch: list[Spread]) -> str:
    largest = batch[0]
    size = largest.shape.dims[0]
    rest = ", None" * (len(largest.shape.dims) - 1)
    how = f'NamedSharding(mesh, P("{axis}"{rest}))'
    if size % times:
        return (
            f"make the batch of {size:,} a multiple of {times}, and give {largest.item.name} {how}"
        )
    names = listed(s.item.name for s in batch)
    return f"split {names} along the first dimension: {largest.item.name} by {how}, {size // times:,} rows each"


def _evidence(redundancy: Redundancy, batch: list[Spread], flops: int) -> Iterable[Evidence]:
    now = Amount(flops, Unit.FLOPS, Basis.MODELLED)
    then = Amount(flops / redundancy.times, Unit.FLOPS, Basis.MODELLED)
    yield Evidence(what="work of each device", amount=now)
    yield Evidence(what="the same, split", amount=then)
    for spread in batch[:_MOST]:
        dims = ",".join(map(str, spread.shape.dims))
        what = f"argument {spread.item.name} [{dims}], whole on each device"
        yield Evidence(what=what, amount=hbm_bytes(spread.item.bytes))


_MOST = 5

RULE = Rule(
    code="M156",
    slug="replicated-batch",
    group=Group.MEMORY,
    title="The batch is not split: devices compute the same",
    why="A batch without a sharding goes to every device, and with copies of the weights each computes all "
    "of it: N devices are as fast as one, and each holds the activations of the whole batch.",
    change="Give the batch `NamedSharding(mesh, P('data'))` (`jax.device_put`, or `in_shardings`).",
    limits="Found when nothing tells the devices of an axis apart: no sharding of an argument or result, no "
    "collective, no use of a device's number. Within a program of which the model axis is used, other axes "
    "are looked at only where the compiler keeps their names. The batch is recognised by its name.",
    fixes=("shard-batch",),
    in_program=find,
)
