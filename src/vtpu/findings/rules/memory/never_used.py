"""Arrays that lie in HBM while nothing uses them, and outputs that nobody looks at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from vtpu.analysis.run.arrays import Arrays, arrays_of, output_number
from vtpu.analysis.run.memory import local_devices, shape_text
from vtpu.analysis.run.unused import Dropped, Idle, find_dropped, find_idle
from vtpu.analysis.source.keepers import assigned_name
from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, count, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import RunSubject
from vtpu.units import counted, format_bytes


def find(subject: RunSubject) -> Iterable[Finding]:
    """A finding for each line that made idle arrays, and for each output that nobody uses."""
    devices = [arrays_of(subject.recording, d) for d in local_devices(subject.recording)]
    is_whole = subject.recording.exit_code in (0, None) and subject.recording.end is not None
    idle = [find_idle(subject.recording, arrays, is_whole=is_whole) for arrays in devices]
    most = max((i for i in idle if i), key=lambda i: i.arrays.column("bytes").sum(), default=None)
    if most:
        yield from _idle(subject, most)
    for arrays in devices[:1]:  # a program gives the same outputs on each of its devices
        for dropped in find_dropped(subject.recording, arrays):
            yield _dropped(subject, dropped)


def _severity(subject: RunSubject, device: int, size: int) -> Severity:
    hbm = next((h for h in subject.summary.hbm if h.device == device), None)
    return of_hbm(size, hbm.peak_bytes if hbm else None, subject.recording.run.hbm_bytes)


# ---- idle arrays -------------------------------------------------------------------------------


def _idle(subject: RunSubject, idle: Idle) -> Iterable[Finding]:
    by_line: dict[SourceLine, list[int]] = defaultdict(list)
    for number, stack in enumerate(idle.arrays.column("stack").tolist()):
        by_line[subject.lines.line(stack)].append(number)
    for line, numbers in by_line.items():
        yield _of_line(subject, line, idle, idle.arrays.take(np.array(numbers)))


def _of_line(subject: RunSubject, line: SourceLine, idle: Idle, arrays: Arrays) -> Finding:
    size = int(arrays.column("bytes").sum())
    shapes = dict.fromkeys(
        shape_text(subject.recording, d) for d in arrays.column("detail").tolist()
    )
    name = assigned_name(subject.files, line) or counted(len(arrays), "array")
    steps = counted(idle.steps, "step")
    return Finding(
        rule=RULE.slug,
        severity=_severity(subject, arrays.device, size),
        title=f"{name} of {format_bytes(size)} stays in HBM through {steps} of {idle.program} that never "
        "use it",
        change=f"let go of {name} when it is not needed any more (`del`, or do not return it), or keep it "
        "on the host with jax.device_get",
        evidence=(
            Evidence(
                what=f"{counted(len(arrays), 'array')}: {', '.join([*shapes][:_MOST])}",
                amount=hbm_bytes(size, Basis.SIMULATED),
                line=line,
            ),
            Evidence(what="steps without a use", amount=count(idle.steps)),
        ),
        cost=Cost(hbm=hbm_bytes(size, Basis.SIMULATED)),
        line=line,
    )


# ---- dropped outputs ---------------------------------------------------------------------------


def _dropped(subject: RunSubject, dropped: Dropped) -> Finding:
    event = subject.recording.events[dropped.row]
    line = subject.lines.line(int(event["stack"]))
    program = subject.program(dropped.program)
    number = output_number(program.module, dropped.place) if program.module else None
    shape = shape_text(subject.recording, int(event["detail"]))
    which = f"result {number}" if number is not None else "a result"
    return Finding(
        rule=RULE.slug,
        severity=_severity(subject, int(event["device"]), dropped.bytes),
        title=f"{program.name} gives {which}, {shape} of {format_bytes(dropped.bytes)}, each time and "
        "nothing uses it",
        change=f"do not return {which} from {program.name.removeprefix('jit_')}, or return a sum of it: "
        "the compiler leaves out what nobody asks for",
        evidence=(
            Evidence(
                what=f"{which}: {shape}",
                amount=hbm_bytes(dropped.bytes, Basis.SIMULATED),
                line=line,
            ),
            Evidence(what="executions that gave one", amount=count(dropped.count)),
        ),
        cost=Cost(hbm=hbm_bytes(dropped.bytes, Basis.SIMULATED)),
        line=line,
        program=program.name,
    )


_MOST = 3

RULE = Rule(
    code="M152",
    slug="never-used",
    group=Group.MEMORY,
    title="Arrays lie in HBM that nothing uses, or outputs are made that nobody looks at",
    why="What Python still names stays in HBM: the weights before a conversion, a data set that was split, "
    "a table that programs have as a constant. An output that is dropped each time costs its memory while "
    "the program runs, and the work to compute it.",
    change="Let go of arrays that are done with (`del`), move what is needed later to the host, and do not "
    "return what nobody uses.",
    limits="Which arrays an execution takes is not recorded: every execution of a program with a parameter "
    "of an array's shape counts as a use of it, and each copy between memories as one of all. So gradients "
    "with the shapes of the weights are never found. Only runs of at least 10 steps tell; of a run "
    "that failed, only what was used before. Less than 1 MiB is left out.",
    in_run=find,
)
