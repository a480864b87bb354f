"""Programs that do not fit, and runs that failed for want of HBM."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.program.out_of_memory import HbmFailure
from vtpu.analysis.run.failures import MemoryFailure
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import ProgramSubject, RunSubject
from vtpu.program.memory import AllocationKind
from vtpu.units import counted, format_bytes

_MOST_BUFFERS = 5
_MOST_FAILURES = 3
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
    """Programs that do not fit, and requests of memory that failed."""
    # where the user's own code goes on in spite of it, it is no end
    survived = subject.recording.exit_code == 0
    severity = Severity.MEDIUM if survived else Severity.CRITICAL
    for program in subject.programs:
        yield from _of_program(program, severity)
    for failure in _different(subject.summary.failures):
        yield _of_failure(failure, subject.recording.run.hbm_bytes, severity)


# ---- programs ----------------------------------------------------------------------------------


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


# ---- runs --------------------------------------------------------------------------------------


def _different(failures: Iterable[MemoryFailure]) -> list[MemoryFailure]:
    """The first failure of each line and program."""
    found: dict[object, MemoryFailure] = {}
    for failure in failures:
        found.setdefault((failure.line, failure.program, failure.is_reservation), failure)
    return list(found.values())[:_MOST_FAILURES]


def _of_failure(failure: MemoryFailure, limit: int, severity: Severity) -> Finding:
    wanted, free = format_bytes(failure.wanted_bytes), format_bytes(failure.free_bytes)
    what = f"temporaries of {failure.program}" if failure.is_reservation else "an array"
    if failure.is_fragmentation:
        lack = f"{free} are free, but not in one piece"
    else:
        lack = f"{free} of {format_bytes(limit)} HBM are free"
    short = max(0, failure.wanted_bytes - failure.free_bytes)
    return Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"out of memory: no room for {wanted} for {what}; {lack}",
        change=_change_of_run(failure),
        evidence=(
            Evidence(what="asked for", amount=hbm_bytes(failure.wanted_bytes, Basis.SIMULATED)),
            Evidence(what="free", amount=hbm_bytes(failure.free_bytes, Basis.SIMULATED)),
            Evidence(
                what="largest free piece",
                amount=hbm_bytes(failure.largest_free_bytes, Basis.SIMULATED),
            ),
            *(
                Evidence(
                    what=f"{counted(group.count, 'array')} {group.shape}",
                    amount=hbm_bytes(group.bytes, Basis.SIMULATED),
                    line=group.line,
                )
                for group in failure.alive[:_MOST_BUFFERS]
            ),
        ),
        cost=Cost(hbm=hbm_bytes(short, Basis.SIMULATED) if short else None),
        line=failure.line,
        program=failure.program or "",
    )


def _change_of_run(failure: MemoryFailure) -> str:
    sure = (w for w in failure.what_ifs or () if w.kind != "freeing unused arrays")
    helps = [w for w in sure if w.avoids_failure]
    if helps:
        return f"what a replay of the run shows to help: {helps[0].what}"
    if failure.is_fragmentation:
        return "make the large arrays first, and free what lies between the free pieces before this line"
    held = failure.alive[0] if failure.alive else None
    what = (
        f"the largest are {counted(held.count, 'array')} {held.shape}" if held else "there are none"
    )
    return f"free arrays before this line, or shard them over more chips: {what}"


RULE = Rule(
    code="M100",
    slug="over-the-limit",
    group=Group.MEMORY,
    title="A program needs more HBM than there is, or a run failed for want of it",
    why="A program needs its arguments, its results and its temporaries in HBM at once, beside whatever "
    "arrays the run keeps alive. What does not fit does not run. The compiler's message calls all of it "
    "temporaries; which kind it is decides what can help.",
    change="Where arguments and results alone are too much: shard, donate, a smaller type, host memory. "
    "Where it is temporaries: a smaller batch, `jax.checkpoint`, blocks instead of the whole. Where the "
    "run keeps arrays: let them go before.",
    limits="Of a program that the compiler gave up early there is no list of buffers. Kernels that need more "
    "VMEM than there is are another matter. A failure that the program itself caught and survived is no "
    "more than medium.",
    fixes=(
        "donate", "batch-size", "accumulate", "checkpoint", "offload", "shard-parameters",
        "shard-optimizer", "shard-batch", "chunked-loss", "optimizer-in-host-memory", "parameter-dtype",
        "activation-dtype",
    ),
    in_program=in_program,
    in_run=in_run,
)  # fmt: skip
