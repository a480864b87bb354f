"""Matrix products that leave much of the matrix units unused."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vtpu.analysis.bottlenecks.products import ProductUse, narrow_dimension, product_uses
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, seconds, share
from vtpu.findings.rule import Group, Rule
from vtpu.findings.step_cost import of_time
from vtpu.findings.subjects import ProgramSubject
from vtpu.findings.words import at, place

_LEAST = 0.005  # of the step
_FULL = 0.9  # of the matrix units: what misses less is no fault


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of shapes, one of precision."""
    module, time = subject.module, subject.report.time
    if module is None or time is None or subject.slice is None:
        return
    edge = subject.slice.generation.chip.mxu_edge.value
    uses = list(product_uses(module, time.rows, edge))
    narrow = [use for use in uses if use.fills < _FULL]
    precise = [use for use in uses if use.largest.passes > 1]
    yield from _finding(subject, narrow, lambda use: use.by_shape_s, lambda use: _narrow(use, edge))
    yield from _finding(subject, precise, lambda use: use.by_precision_s, _precise)


def _finding(
    subject: ProgramSubject,
    uses: list[ProductUse],
    gain: Callable[[ProductUse], float],
    words: Callable[[ProductUse], tuple[str, str]],
) -> Iterable[Finding]:
    uses = sorted(uses, key=gain, reverse=True)
    gained = sum(map(gain, uses))
    if not uses or gained < _LEAST * (subject.step_s or 0.0) or not gained:
        return
    title, change = words(uses[0])
    yield Finding(
        rule=RULE.slug,
        severity=of_time(gained, subject),
        title=title,
        change=change,
        evidence=tuple(e for use in uses if gain(use) for e in _evidence(use, gain(use))),
        cost=Cost(step=seconds(gained)),
        line=uses[0].row.line,
        program=subject.name,
    )


def _narrow(use: ProductUse, edge: int) -> tuple[str, str]:
    size = narrow_dimension(use.largest, edge)
    title = (
        f"matrix products with a dimension of {size} fill {use.fills:.0%} of the {edge} x {edge} matrix "
        f"units{at(use.row.line)}"
    )
    wider = -(-size // edge) * edge
    if size < edge:
        change = (
            f"make the dimension of {size} at {place(use.row.line)} one of {edge} (fewer and wider heads, say), "
            "or join it with another one in the product"
        )
    else:
        change = (
            f"make the dimension of {size} at {place(use.row.line)} a multiple of {edge}: {wider - edge} costs "
            f"{(wider - edge) / wider:.0%} of what {size} does, and {wider} no more"
        )
    return title, change


def _precise(use: ProductUse) -> tuple[str, str]:
    passes = use.largest.passes
    title = (
        f"float32 products at {'highest' if passes == 6 else 'high'} precision go over the matrix units "
        f"{passes} times{at(use.row.line)}"
    )
    change = (
        f"ask for less at {place(use.row.line)} (`precision`, `jax_default_matmul_precision`) where bfloat16 "
        "products summed in float32 do: that is the default"
    )
    return title, change


def _evidence(use: ProductUse, gained: float) -> Iterable[Evidence]:
    p = use.largest
    sizes = f"{p.m} x {p.k} by {p.k} x {p.n}" + (f", {p.batch} times" if p.batch > 1 else "")
    what = f"{use.row.layer or use.row.instruction.name}: {p.lhs.xla_name} {sizes}"
    yield Evidence(what=f"{what}: could be faster by", amount=seconds(gained), line=use.row.line)
    yield Evidence(what="fills of the matrix units", amount=share(use.fills, Basis.MODELLED))


RULE = Rule(
    code="T405",
    slug="mxu-underused",
    group=Group.TIME,
    title="Matrix products leave the matrix units half empty, or go over them several times",
    why="The matrix units multiply by blocks of 128 x 128 (256 x 256 from v6e on). A dimension of 64 fills half "
    "of a block, one of 130 takes two. They multiply bfloat16: float32 at high and highest precision goes "
    "over them 3 and 6 times.",
    change="Choose dimensions that are multiples of the matrix units' edge (heads of 128, padded vocabularies), "
    "and no more precision than is needed.",
    limits="What is gained is modelled, and only of products that the matrix units bound: where HBM or vector "
    "work decides, nothing is told. Pallas kernels are not looked at. Which operand stays in the units is "
    "the compiler's choice and taken to be the better one.",
    fixes=("pad-dimension", "activation-dtype"),
    in_program=find,
)
