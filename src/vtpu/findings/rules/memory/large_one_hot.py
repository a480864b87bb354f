"""One-hot labels that are held in HBM."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.large_values import LargeValue, ValueKind
from vtpu.analysis.source.calls import find_calls
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.units import format_bytes


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of each shape."""
    for value in subject.report.large_values:
        severity = of_hbm(value.bytes, subject.report.need_bytes, subject.limit_bytes)
        if value.kind is ValueKind.ONE_HOT and severity > Severity.NOTE:
            yield _finding(subject, value, severity)


def _finding(subject: ProgramSubject, value: LargeValue, severity: Severity) -> Finding:
    first = value.items[0]
    line = first.line if first.line.line else _line(subject)
    return Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"one-hot labels {first.shape_text} take {format_bytes(value.bytes)} of HBM; as integers they would "
        f"take {format_bytes(4 * _labels(value))}",
        change="keep the labels as integers: `jnp.take_along_axis(values, labels[..., None], axis=-1)` picks what "
        "the product with one-hot labels picks, and `table[labels]` replaces `one_hot @ table`",
        evidence=tuple(
            Evidence(
                what=f"{item.name}, {item.shape_text}",
                amount=hbm_bytes(item.bytes),
                line=item.line if item.line.line else line,
            )
            for item in value.items
        ),
        cost=Cost(hbm=hbm_bytes(value.bytes)),
        line=line,
        program=subject.name,
    )


def _labels(value: LargeValue) -> int:
    elements = 1
    for dim in value.dims:
        elements *= dim
    return elements // value.size


def _line(subject: ProgramSubject) -> SourceLine:
    """The user's call of `one_hot`, where there is one: JAX keeps no line for what it computes."""
    files = dict.fromkeys(i.line.file for i in _items(subject) if i.line.line)
    calls = [c for name in files for c in find_calls(subject.files, name, "one_hot")]
    return calls[0] if len(calls) == 1 else subject.line or UNKNOWN_LINE


def _items(subject: ProgramSubject):  # noqa: ANN202
    usage = subject.report.usage
    return usage.hbm.items if usage and usage.hbm else ()


RULE = Rule(
    code="M106",
    slug="large-one-hot",
    group=Group.MEMORY,
    title="One-hot labels are held in HBM",
    why="`jax.nn.one_hot` makes of each label a row with an element for each class. Where the compiler does not "
    "fuse that into what uses it, the rows lie in HBM, in 32 bits as a rule.",
    change="Keep integer labels and pick with `jnp.take_along_axis`, or index the table.",
    limits="Recognised are `one_hot` itself and comparisons of labels with a range of numbers, where they are "
    "alive at the peak; labels that come as one-hot arguments, and sums of one-hot labels with something else, "
    "are not.",
    fixes=("integer-labels", "chunked-loss"),
    in_program=find,
)
