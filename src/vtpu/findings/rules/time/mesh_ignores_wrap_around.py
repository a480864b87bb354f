"""Meshes whose order of devices does not follow the torus."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.bottlenecks.mesh_orders import MeshOrder, better_order, groups_of
from vtpu.analysis.time.rows import OperationRow
from vtpu.clock.torus import Group
from vtpu.findings.finding import Cost, Evidence, Finding, seconds
from vtpu.findings.rule import Group as RuleGroup
from vtpu.findings.rule import Rule
from vtpu.findings.step_cost import of_time
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import at
from vtpu.program.work import collective_in
from vtpu.units import counted, format_seconds

_LEAST = 0.02  # of the step
_FEWEST_DEVICES = 4  # fewer have one way to stand


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of a program whose collectives another order of the devices would serve better."""
    time, module, wanted = subject.report.time, subject.module, subject.slice
    if time is None or module is None or wanted is None or len(module.devices) < _FEWEST_DEVICES:
        return
    rows = [row for row in time.rows if row.is_communication and row.seconds]
    if not rows or sum(row.seconds for row in rows) < _LEAST * time.seconds:
        return
    order = better_order(module, wanted)
    if order is None or not order.gain_s or order.gain_s < _LEAST * order.now_s:
        return
    yield Finding(
        rule=RULE.slug,
        severity=of_time(order.gain_s, subject),
        title=f"the mesh does not follow the torus: with its devices sorted by {' and '.join(order.by)} a step takes "
        f"{format_seconds(order.then_s)} instead of {format_seconds(order.now_s)}",
        change=_change(order),
        evidence=tuple(e for row in rows for e in _evidence(subject, row, order)),
        cost=Cost(step=seconds(order.gain_s)),
        line=rows[0].line,
        program=subject.name,
    )


def _change(order: MeshOrder) -> str:
    key = ", ".join(f"d.coords[{'xyz'.index(axis)}]" for axis in order.by)
    return (
        f"make the mesh of `sorted(jax.devices(), key=lambda d: ({key}))`, reshaped, or with `jax.make_mesh`, "
        "which goes by the torus too"
    )


def _evidence(subject: ProgramSubject, row: OperationRow, order: MeshOrder) -> Iterable[Evidence]:
    module, wanted = subject.module, subject.slice
    part = collective_in(module, row.instruction) if module else None
    if module is None or wanted is None or part is None:
        return
    groups = groups_of(module, part.collective, wanted, order)
    if groups and groups.now != groups.then:
        what = f"{row.kind}{at(row.line)}: {_words(groups.now)}; then {_words(groups.then)}"
        yield Evidence(what=what, amount=seconds(row.seconds), line=row.line)


def _words(group: Group) -> str:
    if not group.is_box:
        return f"{counted(group.chips, 'chip')} that are no box"
    sides = " x ".join(str(span.chips) for span in group.spans)
    rings = sum(span.is_ring for span in group.spans)
    apart = max((span.stride for span in group.spans), default=1)
    ringed = f", {counted(rings, 'ring')}" if rings else ""
    return f"{sides} chips{ringed}" + (f", {apart} hops apart" if apart > 1 else "")


RULE = Rule(
    code="T410",
    slug="mesh-ignores-wrap-around",
    group=RuleGroup.TIME,
    title="The mesh's order of devices leaves links of the torus unused",
    why="Devices that work together in a collective use the links between them. Along an axis that wraps around "
    "they close a ring and have twice the links of a line; devices that are not neighbours share links with "
    "other groups and are more hops apart.",
    change="Make meshes with `jax.make_mesh` or `mesh_utils.create_device_mesh`, or of devices sorted by their "
    "coordinates, and give the axis that communicates most a ring of its own.",
    limits="Tried are orders along the axes of the torus, not every order, and not another shape of the mesh. "
    "Times of collectives are modelled from links and bytes.",
    fixes=("mesh-order",),
    in_program=find,
)
