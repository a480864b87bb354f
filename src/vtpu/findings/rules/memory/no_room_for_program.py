"""Programs that compile alone and find no room beside what is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from vtpu.analysis.run.failures import MemoryFailure
from vtpu.analysis.run.memory import AliveGroup
from vtpu.analysis.run.programs import need_bytes
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import place
from vtpu.recording.recording import ProgramRecord
from vtpu.units import counted, format_bytes


def find(subject: RunSubject) -> Iterable[Finding]:
    """The first request that failed because too little was free."""
    failed = [f for f in subject.summary.failures if not f.is_fragmentation]
    if failed:
        yield _finding(subject, failed[0])


def _finding(subject: RunSubject, failure: MemoryFailure) -> Finding:
    short = failure.wanted_bytes - failure.free_bytes
    program = _program(subject, failure)
    beside, others = _others(failure, program)
    ended = subject.recording.exit_code != 0
    return Finding(
        rule=RULE.slug,
        severity=Severity.CRITICAL if ended else Severity.HIGH,
        title=_title(failure, program, beside, short),
        change=_change(program, others, short),
        evidence=(*_evidence(failure, program, others, short), *_code(subject)),
        cost=Cost(hbm=hbm_bytes(short, Basis.SIMULATED)),
        line=failure.line,
        program=failure.program or "",
    )


def _program(subject: RunSubject, failure: MemoryFailure) -> ProgramRecord | None:
    named = [p for p in subject.recording.programs if p.name == failure.program and not p.error]
    return max(named, key=need_bytes, default=None)


def _others(failure: MemoryFailure, program: ProgramRecord | None) -> tuple[int, list[AliveGroup]]:
    """Bytes of arrays that are neither arguments nor outputs of a program, and the groups they are in.

    Of each shape as many arrays are the program's as it has arguments like that, and outputs where all of
    them had been placed.
    """
    own: Counter[str] = Counter()
    if program:
        placed = program.output_shapes if failure.is_reservation else ()
        own.update(text.partition("{")[0] for text in (*program.parameter_shapes, *placed))
    size, groups = 0, list[AliveGroup]()
    for group in reversed(failure.alive):  # the smallest are the program's
        spare = min(own[group.shape], group.count)
        own[group.shape] -= spare
        if group.count > spare:
            size += group.bytes * (group.count - spare) // group.count
            groups.append(group)
    return size, groups[::-1]


def _title(failure: MemoryFailure, program: ProgramRecord | None, beside: int, short: int) -> str:
    lacks = f"{format_bytes(short)} are lacking"
    if program is None or _only_creates(program):
        size = format_bytes(failure.wanted_bytes)
        return f"an array of {size} finds no room beside {format_bytes(beside)} of others: {lacks}"
    return (
        f"{program.name} needs {format_bytes(need_bytes(program))} and fits alone, but not beside "
        f"{format_bytes(beside)} of other arrays: {lacks}"
    )


def _only_creates(program: ProgramRecord) -> bool:
    """Whether a program is little more than its outputs, as `jnp.zeros` is."""
    return program.argument_bytes + program.temp_bytes < 0.01 * program.output_bytes


def _change(program: ProgramRecord | None, others: list[AliveGroup], short: int) -> str:
    """What has the bytes that are lacking, and what of the program could be smaller."""
    largest = others[0] if others else None
    parts: list[str] = []
    if largest:
        parts.append(f"keep less of what {place(largest.line)} makes ({_text(largest)})")
    if program and program.temp_bytes >= short:
        parts.append(
            f"or make the temporaries of {program.name} ({format_bytes(program.temp_bytes)}) smaller: a "
            "smaller batch, or one part after the other"
        )
    parts.append(f"{format_bytes(short)} less are enough")
    return "; ".join(parts)


def _text(group: AliveGroup) -> str:
    return f"{counted(group.count, 'array')} {group.shape}, {format_bytes(group.bytes)}"


def _evidence(
    failure: MemoryFailure, program: ProgramRecord | None, others: list[AliveGroup], short: int
) -> Iterable[Evidence]:
    if program:
        parts = {
            "arguments": program.argument_bytes,
            "outputs": program.output_bytes - program.alias_bytes,
            "temporaries": program.temp_bytes,
        }
        for what, size in parts.items():
            yield Evidence(what=f"{program.name}: {what}", amount=hbm_bytes(size))
    yield Evidence(what="wanted", amount=hbm_bytes(failure.wanted_bytes, Basis.SIMULATED))
    yield Evidence(what="free", amount=hbm_bytes(failure.free_bytes, Basis.SIMULATED))
    yield Evidence(what="lacking", amount=hbm_bytes(short, Basis.SIMULATED))
    for group in others[:_MOST]:
        size = hbm_bytes(group.bytes, Basis.SIMULATED)
        made = f"resident: {counted(group.count, 'array')} {group.shape}"
        yield Evidence(what=made, amount=size, line=group.line)


def _code(subject: RunSubject) -> Iterable[Evidence]:
    """The code of all programs, which stays in HBM while they are loaded and is in no other figure."""
    loaded = {p.key: p.generated_code_bytes for p in subject.recording.programs if not p.error}
    size = sum(loaded.values())
    if size >= _LEAST_CODE:
        what = f"not counted: code of {counted(len(loaded), 'program')}, if all are loaded"
        yield Evidence(what=what, amount=hbm_bytes(size))


_MOST = 5
_LEAST_CODE = 16 << 20

RULE = Rule(
    code="M154",
    slug="no-room-for-program",
    group=Group.MEMORY,
    title="A program fits alone but finds no room beside what is there",
    why="The compiler grants each program all of HBM, as if nothing else were there. At run time its "
    "temporaries and outputs have to fit beside caches, other models and what Python keeps.",
    change="Plan for the sum: a smaller cache or batch, temporaries in parts, what is not needed let go first.",
    limits="Which arrays an execution takes is not recorded: of each shape as many count as the program's as it "
    "has arguments and outputs like that. The code of loaded programs takes HBM too and is not counted. Lack of room is seen when it happens, "
    "not before.",
    fixes=("donate", "batch-size", "checkpoint", "accumulate"),
    in_run=find,
)
