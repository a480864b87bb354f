"""Collectives that only bring an array into another sharding, and that nobody asked for."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.bottlenecks.reshards import Cause, Reshard
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, hbm_bytes, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.step_cost import of_time
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import place
from vtpu.units import format_bytes


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding for each line and cause; one for a batch that does not stay cut."""
    together: dict[tuple[object, ...], list[Reshard]] = {}
    for found in subject.reshards:
        where = None if found.cause is Cause.BATCH else found.row.line
        together.setdefault((found.cause, where), []).append(found)
    for reshards in together.values():
        yield _finding(subject, reshards)


def _finding(subject: ProgramSubject, reshards: list[Reshard]) -> Finding:
    worst = reshards[0]
    lost = sum(r.seconds for r in reshards)
    return Finding(
        rule=RULE.slug,
        severity=of_time(lost, subject),
        title=_TITLES[worst.cause](worst),
        change=_CHANGES[worst.cause](worst),
        evidence=tuple(e for r in reshards for e in _evidence(r)),
        cost=Cost(step=seconds(lost)),
        line=worst.row.line,
        program=subject.name,
    )


def _evidence(found: Reshard) -> Iterable[Evidence]:
    row = found.row
    what = f"{row.kind} {row.instruction.name} over {found.devices} devices"
    yield Evidence(what=what, amount=seconds(found.seconds), line=row.line)
    size = hbm_bytes(found.whole_bytes, Basis.COMPILER)
    yield Evidence(what="the whole of it on each device", amount=size)
    if found.warning:
        text = f"from {found.warning.sharding_from} to {found.warning.sharding_to}"
        yield Evidence(what="the compiler's log: involuntary full rematerialization", text=text)


def _rematerialised(found: Reshard) -> str:
    return (
        f"full rematerialisation in a resharding: an array of {format_bytes(found.whole_bytes)} is gathered "
        f"whole on each of {found.devices} devices, which then take a part of it"
    )


def _for_host(found: Reshard) -> str:
    return (
        f"an array of {format_bytes(found.whole_bytes)} is gathered whole on each of {found.devices} devices "
        "only to be handed to the host"
    )


def _batch(found: Reshard) -> str:
    batch = found.argument
    assert batch is not None, "the cause is a batch"
    assert batch.whole is not None, "it comes in parts"
    return (
        f"the batch does not stay cut: {batch.name} has {batch.shape.dims[0]} of {batch.whole[0]} rows on "
        f"each device, and what is computed from all of them goes over the links"
    )


def _state(found: Reshard) -> str:
    argument, result = found.argument, found.result
    assert argument is not None, "the cause is a state"
    assert result is not None, "it is returned"
    return (
        f"{argument.name} is given in {_cut(argument.parts)} and returned in {_cut(result.parts)}: "
        f"{format_bytes(found.whole_bytes)} go over the links"
    )


def _cut(parts: tuple[int, ...] | None) -> str:
    if not parts or max(parts) == 1:
        return "whole on each device"
    return " x ".join(map(str, parts)) + " parts"


def _change_rematerialised(found: Reshard) -> str:
    return (
        f"at {place(found.row.line)} ask for a sharding that one exchange leads to: move one axis of the mesh "
        "at a time (a `jax.lax.with_sharding_constraint` in between), or leave the array in the sharding in "
        "which it comes and give what uses it the same one"
    )


def _change_for_host(found: Reshard) -> str:
    return (
        f"hand the host a reduction or a part of the array of {place(found.row.line)}, or nothing"
    )


def _change_batch(found: Reshard) -> str:
    name = found.argument.name if found.argument else "the batch"
    return (
        f"keep the activations cut as {name} is: `jax.lax.with_sharding_constraint` on them in each layer, as "
        f"before {place(found.row.line)}; then weights are gathered instead, or sums made of gradients alone"
    )


def _change_state(found: Reshard) -> str:
    name = found.argument.name if found.argument else "the state"
    return f"give `out_shardings` for {name} what its argument has, so that it stays where it is"


_TITLES = {
    Cause.REMATERIALISED: _rematerialised,
    Cause.FOR_HOST: _for_host,
    Cause.BATCH: _batch,
    Cause.STATE: _state,
}
_CHANGES = {
    Cause.REMATERIALISED: _change_rematerialised,
    Cause.FOR_HOST: _change_for_host,
    Cause.BATCH: _change_batch,
    Cause.STATE: _change_state,
}

RULE = Rule(
    code="T404",
    slug="unintended-reshard",
    group=Group.TIME,
    title="An array is brought into another sharding that the program did not mean",
    why="Where the shardings of a value and of what uses it do not go together, the partitioner inserts "
    "collectives, mostly without a word. At worst it gathers the whole array on every device and lets each "
    "take its part (`[SPMD] Involuntary full rematerialization` in libtpu's log), or keeps the batch whole "
    "in layers whose activations have no sharding of their own.",
    change="Constrain the sharding of activations (`jax.lax.with_sharding_constraint`), give `out_shardings` "
    "for what is returned, and let producers and users of an array agree.",
    limits="Gathers of parameters are taken to be meant, as in fully sharded training, and so are exchanges "
    "between axes of the mesh. That the batch does not stay cut is seen by its number of rows in arrays that "
    "are no parameter's by their dimensions; losses that compare all examples with each other gather "
    "them on purpose. Of a state only donated arguments are compared with results.",
    fixes=("out-shardings", "shard-batch"),
    in_program=find,
)
