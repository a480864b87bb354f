"""A large argument that is whole where the others are split: its dimension does not divide."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.spread import Undivided, find_undivided
from vtpu.findings.arguments import line_of, spreads
from vtpu.findings.finding import Cost, Evidence, Finding, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.units import counted, format_bytes

_LEAST_BYTES = 1 << 20


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """A finding for each large argument that is whole for that reason."""
    for found in find_undivided(spreads(subject)):
        if found.spread.item.bytes >= _LEAST_BYTES:
            yield _finding(subject, found)


def _finding(subject: ProgramSubject, found: Undivided) -> Finding:
    spread = found.spread
    saved = spread.saved_bytes(found.parts)
    size = spread.shape.dims[found.dimension]
    over = f"the axis {found.axis}" if found.axis else "the devices"
    return Finding(
        rule=RULE.slug,
        severity=of_hbm(saved, subject.report.need_bytes, subject.limit_bytes),
        title=f"{spread.item.name} of {format_bytes(spread.item.bytes)} has copies on {found.parts} devices: its "
        f"dimension of {size:,} does not divide by {found.parts}",
        change=f"pad dimension {found.dimension} of {spread.item.name} from {size:,} to {found.padded:,} and split "
        f"it over {over}, as the other {counted(found.others, 'array')}",
        evidence=(
            Evidence(what=f"argument {spread.item.name}", amount=hbm_bytes(spread.item.bytes)),
            Evidence(
                what="the same, padded and split",
                text=format_bytes(spread.item.bytes * found.padded // size // found.parts),
            ),
            Evidence(
                what=f"arrays of the state that are split over {over}", text=f"{found.others:,}"
            ),
        ),
        cost=Cost(hbm=hbm_bytes(saved)),
        line=line_of(subject),
        program=subject.name,
    )


RULE = Rule(
    code="M157",
    slug="dimension-does-not-divide",
    group=Group.MEMORY,
    title="An array is whole on every device because its dimension does not divide",
    why="Rules that give parameters their shardings leave an array whole where a dimension does not divide by "
    "the mesh's axis, mostly without a word: a vocabulary of 50,257 on 8 devices.",
    change="Pad the dimension to a multiple of the axis (and of 128), and mask what was added.",
    limits="The intent is inferred: most of the state is split over the axis, at least three arrays or one that "
    "differs in this dimension only, and the largest dimension of this one does not divide. It may be whole on "
    "purpose.",
    fixes=("pad-dimension",),
    in_program=find,
)
