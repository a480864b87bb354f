"""Logits or probabilities over a vocabulary that are held whole."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from vtpu.analysis.program.large_values import LargeValue, ValueKind
from vtpu.analysis.source_lines import UNKNOWN_LINE
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.element_types import ElementType
from vtpu.program.memory import AllocationKind
from vtpu.program.op_names import Phase, phase_of
from vtpu.units import format_bytes


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all that has the shape of one product with the vocabulary."""
    for value in subject.report.large_values:
        severity = of_hbm(value.bytes, subject.report.need_bytes, subject.limit_bytes)
        if value.kind is ValueKind.LOGITS and severity > Severity.NOTE:
            yield _finding(subject, value, severity)


def _finding(subject: ProgramSubject, value: LargeValue, severity: Severity) -> Finding:
    rows = prod(value.dims) // value.size
    return Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"logits of {rows:,} rows over {value.size:,} classes are held whole: {format_bytes(value.bytes)}, "
        f"{_kinds(value)}",
        change=_change(subject, value, rows),
        evidence=tuple(
            Evidence(
                what=f"{item.role} {item.name}, {item.shape_text}",
                amount=hbm_bytes(item.bytes),
                line=item.line,
            )
            for item in value.items
        ),
        cost=Cost(hbm=hbm_bytes(value.bytes)),
        line=next((i.line for i in value.items if i.line.line), subject.line or UNKNOWN_LINE),
        program=subject.name,
    )


def _kinds(value: LargeValue) -> str:
    types = dict.fromkeys(item.dtype for item in value.items)
    return " and ".join(types)


def _change(subject: ProgramSubject, value: LargeValue, rows: int) -> str:
    if _is_differentiated(subject):
        chunk = max(1, rows // 16)
        advice = (
            f"compute the loss in chunks of rows, about {chunk:,} at a time: `jax.lax.scan` over the hidden states "
            "and labels, with the product and the loss of a chunk in a `jax.checkpoint`"
        )
    elif (picked := _rows_returned(subject, value)) is not None and picked < rows:
        advice = (
            f"pick the rows first: {picked:,} of {rows:,} are returned, so index the hidden states before the "
            "product with the vocabulary"
        )
    else:
        advice = (
            "compute what is needed of them in chunks of rows (`jax.lax.map` over the hidden states), or pick the "
            "rows before the product with the vocabulary"
        )
    return advice + _of_types(value)


def _of_types(value: LargeValue) -> str:
    wide = [i for i in value.items if i.shape and i.shape.element_type is ElementType.F32]
    narrow = [i for i in value.items if i not in wide]
    if wide and narrow:
        return "; what is float32 of it is a copy: without `.astype(jnp.float32)` before the softmax it need not exist"
    return ""


def _is_differentiated(subject: ProgramSubject) -> bool:
    module = subject.module
    instructions = module.by_id.values() if module else ()
    return any(phase_of(i.op_name) is Phase.BACKWARD for i in instructions)


def _rows_returned(subject: ProgramSubject, value: LargeValue) -> int | None:
    """How many rows of the vocabulary's size the program returns."""
    usage = subject.report.usage
    items = usage.hbm.items if usage and usage.hbm else ()
    shapes = (i.shape for i in items if i.occupant.kind is AllocationKind.OUTPUT)
    rows = [prod(s.dims) // value.size for s in shapes if s and value.size in s.dims]
    return max(rows, default=None)


RULE = Rule(
    code="M107",
    slug="large-logits",
    group=Group.MEMORY,
    title="Logits over a vocabulary are held whole",
    why="Logits have a row of the whole vocabulary for every token. A loss over them keeps them, often in "
    "float32 beside bfloat16, and their gradient; inference often needs the last row of each request only.",
    change="In training: the loss in chunks of tokens under `jax.checkpoint`. In inference: pick the rows before the "
    "product with the vocabulary. Both: no copy in float32.",
    limits="Logits are recognised by a softmax over the result of a product with a matrix of at least 1,024 classes, "
    "where they are alive at the peak. An argmax over logits, and logits that are returned whole, are not told.",
    fixes=("chunked-loss", "select-rows", "activation-dtype", "batch-size"),
    in_program=find,
)
