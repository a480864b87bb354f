"""What both rules about padding look at: arrays at the peak that pad, each told once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from vtpu.analysis.program.padding import Cause, PaddedItem, PaddingKind
from vtpu.findings.finding import Finding
from vtpu.findings.subjects import ProgramSubject, RunSubject
from vtpu.program.memory import MemorySpace

_FAR_BELOW = 2.0
_MINOR = (PaddingKind.MINOR, PaddingKind.SECOND_MINOR)


def is_far_below(cause: Cause) -> bool:
    """Whether a minor or second-minor dimension takes half of its tile or less."""
    return cause.kind in _MINOR and cause.factor >= _FAR_BELOW


def padding_in_hbm(subject: ProgramSubject, told: set[str]) -> list[PaddedItem]:
    """The arrays at the peak of HBM that pad, most first, without those of shapes that are told."""
    hbm = next((s for s in subject.report.padding if s.color == MemorySpace.HBM), None)
    rows = hbm.rows if hbm else ()
    return [row for row in rows if row.is_at_peak and row.item.shape_text not in told]


def once_per_shape(
    subject: RunSubject, find: Callable[[ProgramSubject, set[str]], Iterable[Finding]]
) -> Iterator[Finding]:
    """What `find` finds in the programs of a run, the largest first; it is handed the shapes that are told."""
    told: set[str] = set()
    for program in sorted(subject.programs, key=lambda p: -(p.report.need_bytes or 0)):
        yield from find(program, told)
