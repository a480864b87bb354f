"""Steps that a checkpoint or a large log holds up."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.run.loop import repeated
from vtpu.analysis.run.reads import waiting_reads
from vtpu.analysis.run.stalls import Stalls, find_stalls
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, count, hbm_bytes, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import quoted
from vtpu.units import counted, format_bytes, format_seconds


def find(subject: RunSubject) -> Iterable[Finding]:
    """One finding of all steps that reads hold up."""
    step = subject.summary.time.step if subject.summary.time else None
    if subject.loop is None or step is None:
        return
    reads = waiting_reads(subject.recording)
    stalls = find_stalls(subject.recording, subject.virtual_run, step.steps, subject.loop, reads)
    if stalls:
        yield _finding(subject, stalls, subject.loop.count)


def _finding(subject: RunSubject, stalls: Stalls, of_steps: int) -> Finding:
    assert subject.loop is not None
    line = repeated(subject.recording, subject.lines, subject.loop, stalls.reads)[0].line
    number, each = len(stalls.steps), stalls.bytes // len(stalls.steps)
    return Finding(
        rule=RULE.slug,
        severity=max(by_share(stalls.lost_s, stalls.whole_s), Severity.LOW),
        title=f"{counted(number, 'step')} of {of_steps} {'takes' if number == 1 else 'take'} up to "
        f"{format_seconds(stalls.longest_s)} instead of {format_seconds(stalls.median_s)}: "
        f"{quoted(subject.files.text(line))} reads {format_bytes(each)} and the device waits",
        change="write checkpoints beside the steps: start `jax.tree.map(lambda x: x.copy_to_host_async(), state)` and "
        "write a few steps later on another thread, or use Orbax's `AsyncCheckpointer`; where the state is "
        "donated, copy it on the device first",
        evidence=(
            Evidence(what="steps that are held up", amount=count(number), line=line),
            Evidence(what="bytes read in such a step", amount=hbm_bytes(each, Basis.SIMULATED)),
            Evidence(what="the longest of them", amount=seconds(stalls.longest_s)),
            Evidence(what="the median step", amount=seconds(stalls.median_s)),
            Evidence(what="lost in all", amount=seconds(stalls.lost_s)),
        ),
        cost=Cost(step=seconds(stalls.lost_s / of_steps), once=seconds(stalls.lost_s)),
        line=line,
    )


RULE = Rule(
    code="X206",
    slug="stall-by-checkpoint",
    group=Group.TRANSFERS,
    title="A checkpoint or a large log holds up single steps",
    why="When the host reads the whole state it waits for the device, then for the link, then it writes the file; "
    "meanwhile nothing is dispatched and the device has nothing to do.",
    change="Start the copy with `copy_to_host_async()` and write the file on another thread while the next steps "
    "run, as Orbax's asynchronous checkpointing does; or write less often.",
    limits="Steps count from half as long again as the median, with a mebibyte read at least and four times what a "
    "step reads otherwise. What the host does in such a step besides, as writing the file on this machine's "
    "disk, is in it. Whether reads of another thread hold up the loop is seen only where it waits for them.",
    in_run=find,
)
