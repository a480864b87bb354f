"""Matrix products and lookups that HBM bounds."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.bottlenecks.products import ProductUse, few_rows, product_uses
from vtpu.analysis.time.report import TimeReport
from vtpu.analysis.time.rows import OperationRow
from vtpu.clock.resources import Resource
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.step_cost import of_time
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import at, place
from vtpu.units import counted, format_bytes, format_seconds

_LEAST = 0.01  # of the step
_MUCH = 0.2
_MOST_OF_IT = 0.5  # graphs and tables of embeddings look up a lot by nature
_SUBLANES = 8  # rows of a register: fewer take as long
_LOOKUPS = ("gather", "take", "scatter-add")


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of float32 that could be narrower, one of few rows, one of lookups."""
    module, time = subject.module, subject.report.time
    if module is None or time is None or subject.slice is None:
        return
    edge = subject.slice.generation.chip.mxu_edge.value
    bound = [use for use in product_uses(module, time.rows, edge) if use.is_bound_by_hbm]
    ridge = time.time.peak_flops_per_s / time.time.hbm_bytes_per_s
    few = [use for use in bound if few_rows(use.largest) < ridge / 2]
    yield from _of_wide(subject, time, bound)
    yield from _of_few_rows(subject, time, few, ridge)
    yield from _of_lookups(subject, time)


def _of_wide(
    subject: ProgramSubject, time: TimeReport, bound: list[ProductUse]
) -> Iterable[Finding]:
    uses = sorted((use for use in bound if use.by_type_s), key=lambda use: -use.by_type_s)
    gained = sum(use.by_type_s for use in uses)
    if not uses or gained < _LEAST * time.seconds:
        return
    line = uses[0].row.line
    yield Finding(
        rule=RULE.slug,
        severity=of_time(gained, subject),
        title=f"matrix products that HBM bounds read and write float32{at(line)}: in bfloat16 they would take "
        f"{format_seconds(gained)} less",
        change=f"keep the operands of {place(line)} in bfloat16 (weights too); products are summed in float32 "
        "inside the matrix units all the same",
        evidence=tuple(_evidence(use.row) for use in uses),
        cost=Cost(step=seconds(gained)),
        line=line,
        program=subject.name,
    )


def _of_few_rows(
    subject: ProgramSubject, time: TimeReport, few: list[ProductUse], ridge: float
) -> Iterable[Finding]:
    spent = sum(use.row.seconds for use in few)
    if not few or spent < _MUCH * time.seconds:
        return
    worst = max(few, key=lambda use: use.row.seconds)
    rows, line = few_rows(worst.largest), worst.row.line
    most = Severity.MEDIUM if rows < _SUBLANES else Severity.LOW
    yield Finding(
        rule=RULE.slug,
        severity=min(of_time(spent, subject), most),
        title=f"HBM bounds matrix products of {counted(rows, 'row')}{at(line)}, {format_seconds(spent)} of "
        f"{format_seconds(time.seconds)}: the matrix units could do {ridge:.0f} rows meanwhile",
        change=_for_few_rows(worst, rows),
        evidence=tuple(_evidence(use.row) for use in sorted(few, key=lambda u: -u.row.seconds)),
        cost=Cost(step=seconds(sum(use.row.seconds - _on_mxu(use.row) for use in few))),
        line=line,
        program=subject.name,
    )


def _for_few_rows(use: ProductUse, rows: int) -> str:
    if use.largest.batch > 1:
        return (
            f"what {place(use.row.line)} reads is used for {counted(rows, 'row')} only: keep it in 8 bits, share "
            "it between heads, or read less of it"
        )
    return (
        f"more rows for each reading of the weights at {place(use.row.line)} (a larger batch: {rows} now), or "
        "fewer bytes: weights in int8 or float8 take half the time"
    )


def _on_mxu(row: OperationRow) -> float:
    return min(row.seconds, row.time.busy.get(Resource.MXU, 0.0) * row.time.runs)


def _of_lookups(subject: ProgramSubject, time: TimeReport) -> Iterable[Finding]:
    rows = [row for row in time.rows if _is_lookup(row)]
    spent = sum(row.seconds for row in rows)
    if not rows or spent < _MOST_OF_IT * time.seconds:
        return
    moved = sum(row.hbm_bytes or 0 for row in rows)
    yield Finding(
        rule=RULE.slug,
        severity=min(of_time(spent, subject), Severity.LOW),
        title=f"lookups in tables move {format_bytes(moved)} through HBM{at(rows[0].line)}, "
        f"{format_seconds(spent)} of {format_seconds(time.seconds)}",
        change=f"look up fewer rows at {place(rows[0].line)} (each index once), or keep the table in bfloat16 with "
        "rows that are multiples of 128",
        evidence=tuple(map(_evidence, rows)),
        cost=Cost(step=seconds(spent)),
        line=rows[0].line,
        program=subject.name,
    )


def _is_lookup(row: OperationRow) -> bool:
    is_lookup = row.op_name.rpartition("/")[2] in _LOOKUPS
    return is_lookup and row.bound is Resource.HBM and not row.flops and not row.is_communication


def _evidence(row: OperationRow) -> Evidence:
    size = format_bytes(row.hbm_bytes or 0)
    intensity = f", {row.intensity:.1f} FLOP/B" if row.intensity else ""
    what = f"{row.layer or row.instruction.name}: {size} of HBM{intensity}"
    return Evidence(what=what, amount=seconds(row.seconds), line=row.line)


RULE = Rule(
    code="T406",
    slug="memory-bound-product",
    group=Group.TIME,
    title="HBM bounds matrix products or lookups",
    why="A product reads its operands once. Where few rows meet large weights, as in a decoding step, or where "
    "operands are float32, the matrix units wait for HBM: more rows would take no longer, and narrower types "
    "less long.",
    change="A larger batch, weights and caches in fewer bits, bfloat16 in place of float32.",
    limits="Fewer rows than would be free are no fault where no more requests come at a time: that is low. "
    "Latencies of single rows in a lookup are not modelled. Pallas kernels are not looked at.",
    fixes=("batch-size", "parameter-dtype", "activation-dtype"),
    in_program=find,
)
