"""Programs that need more HBM than there is."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.program.out_of_memory import HbmFailure
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import ProgramSubject, RunSubject
from vtpu.program.memory import AllocationKind
from vtpu.units import format_bytes

_MOST_BUFFERS = 5
_WORDS = {
    AllocationKind.ARGUMENT: "arguments",
    AllocationKind.OUTPUT: "results",
    AllocationKind.TEMP: "temporaries",
    AllocationKind.CONSTANT: "constants",
}


def in_program(subject: ProgramSubject) -> Iterable[Finding]:
    """A function that was compiled alone and does not fit."""
    if subject.calls is None:
        yield from _of_program(subject, Severity.CRITICAL)


def in_run(subject: RunSubject) -> Iterable[Finding]:
    """Programs of a run that do not fit."""
    # where the user's own code goes on in spite of it, it is no end
    survived = subject.recording.exit_code == 0
    severity = Severity.MEDIUM if survived else Severity.CRITICAL
    for program in subject.programs:
        yield from _of_program(program, severity)


def _of_program(subject: ProgramSubject, severity: Severity) -> Iterable[Finding]:
    failure, limit = subject.report.failure, subject.limit_bytes
    if not isinstance(failure, HbmFailure) or limit is None:
        return
    hbm = failure.usage.hbm
    sizes = dict(hbm.by_kind) if hbm else {}
    over = failure.need_bytes - limit
    yield Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"{subject.name} does not fit: it needs {format_bytes(failure.need_bytes)} of "
        f"{format_bytes(limit)} HBM, {format_bytes(over)} too much; {_dominant(sizes)}",
        change=_change(failure, sizes, limit),
        evidence=(
            *(
                Evidence(what=word, amount=hbm_bytes(sizes[kind]))
                for kind, word in _WORDS.items()
                if sizes.get(kind, 0) * 1000 > failure.need_bytes
            ),
            *map(_buffer, _largest(failure)),
        ),
        cost=Cost(hbm=hbm_bytes(over)),
        line=subject.line or _first_line(failure),
        program=subject.name,
    )


def _dominant(sizes: dict[AllocationKind, int]) -> str:
    """Which kinds make most of the need, as the first half of it and more."""
    whole = sum(sizes.values())
    shown = [k for k in _WORDS if sizes.get(k, 0) * 4 >= whole]
    parts = (f"{format_bytes(sizes[kind])} are {_WORDS[kind]}" for kind in sorted(shown, key=lambda k: -sizes[k]))  # fmt: skip
    return ", ".join(parts)


def _change(failure: HbmFailure, sizes: dict[AllocationKind, int], limit: int) -> str:
    fixed = sizes.get(AllocationKind.ARGUMENT, 0) + sizes.get(AllocationKind.OUTPUT, 0)
    best = next((e for e in failure.estimates.found if e.saved_bytes > 0), None)
    estimate = (
        f" By estimate: {best.change} would need {format_bytes(best.need_bytes)}." if best else ""
    )
    if fixed > limit:
        return (
            f"arguments and results alone take {format_bytes(fixed)}: computing again (`jax.checkpoint`) "
            "cannot help. Shard them over more chips, donate what is replaced, store them in a smaller type, "
            f"or keep a part in host memory.{estimate}"
        )
    if sizes.get(AllocationKind.TEMP, 0) * 2 < failure.need_bytes:
        return (
            "most of it is arguments and results: shard them, donate what is replaced, or store them in a "
            f"smaller type; what remains are temporaries.{estimate}"
        )
    first = next(iter(_largest(failure)), None)
    what = f", first of all of {first.name} ({first.shape_text})" if first else ""
    return f"temporaries have to shrink{what}.{estimate}"


def _largest(failure: HbmFailure) -> tuple[MemoryItem, ...]:
    return failure.largest[:_MOST_BUFFERS]


def _buffer(item: MemoryItem) -> Evidence:
    return Evidence(
        what=f"{item.role} {item.name}, {item.shape_text}",
        amount=hbm_bytes(item.bytes),
        line=item.line,
    )


def _first_line(failure: HbmFailure) -> SourceLine:
    return next((i.line for i in failure.largest if i.line.line), UNKNOWN_LINE)


RULE = Rule(
    code="M100",
    slug="over-the-limit",
    group=Group.MEMORY,
    title="A program needs more HBM than there is",
    why="A program needs its arguments, its results and its temporaries in HBM at once. What does not fit does not "
    "run. The compiler's message calls all of it temporaries; which kind it is decides what can help.",
    change="Where arguments and results alone are too much: shard, donate, a smaller type, host memory. "
    "Where it is temporaries: a smaller batch, `jax.checkpoint`, blocks instead of the whole.",
    limits="Of a program that the compiler gave up early there is no list of buffers, and nothing is told. Kernels "
    "that need more VMEM than there is are another matter, as are programs that fit alone but not beside the "
    "arrays of a run (no-room-for-program, fragmentation). A failure that the script itself caught and survived "
    "is no more than medium.",
    fixes=(
        "donate", "batch-size", "accumulate", "checkpoint", "offload", "shard-parameters",
        "shard-optimizer", "shard-batch", "chunked-loss", "optimizer-in-host-memory", "parameter-dtype",
        "activation-dtype",
    ),
    in_program=in_program,
    in_run=in_run,
)  # fmt: skip
