"""Programs and runs that fit, with next to nothing left."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.run.memory import HbmSummary
from vtpu.analysis.source_lines import UNKNOWN_LINE
from vtpu.evidence import Basis
from vtpu.findings.finding import Evidence, Finding, Severity, hbm_bytes, share
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import ProgramSubject, RunSubject
from vtpu.units import format_bytes

_LITTLE, _NEXT_TO_NOTHING = 0.03, 0.01
_MOST_BUFFERS = 4
_CHANGE = (
    "free some of it before a longer input, another version of the compiler or a few more arrays need it: "
    "see what takes most, below"
)


def in_program(subject: ProgramSubject) -> Iterable[Finding]:
    """A function that was compiled alone."""
    need, limit = subject.report.need_bytes, subject.limit_bytes
    if subject.calls is not None or not subject.report.fits or not need or not limit:
        return
    left = (limit - need) / limit
    if not 0 <= left < _LITTLE:
        return
    usage = subject.report.usage
    largest = usage.hbm.at_peak()[:_MOST_BUFFERS] if usage and usage.hbm else ()
    yield Finding(
        rule=RULE.slug,
        severity=_severity(left),
        title=f"{subject.name} fits with {left:.1%} of HBM left: {format_bytes(need)} of {format_bytes(limit)}",
        change=_CHANGE,
        evidence=(
            Evidence(what="left", amount=hbm_bytes(limit - need)),
            *(
                Evidence(
                    what=f"{item.role} {item.name}, {item.shape_text}",
                    amount=hbm_bytes(item.bytes),
                    line=item.line,
                )
                for item in largest
            ),
        ),
        line=subject.line or next((i.line for i in largest if i.line.line), UNKNOWN_LINE),
        program=subject.name,
    )


def in_run(subject: RunSubject) -> Iterable[Finding]:
    """The device that came nearest to its limit, where nothing failed."""
    failed = subject.summary.failures or any(p.error for p in subject.recording.programs)
    if failed or not subject.summary.hbm:
        return
    device = min(subject.summary.hbm, key=_left)
    left = _left(device)
    if not 0 <= left < _LITTLE:
        return
    at = f" in {device.peak_program}" if device.peak_program else ""
    yield Finding(
        rule=RULE.slug,
        severity=_severity(left),
        title=f"the run came within {left:.1%} of the HBM of device {device.device}{at}: "
        f"{format_bytes(device.peak_bytes)} of {format_bytes(device.limit_bytes)}",
        change=_CHANGE,
        evidence=(
            Evidence(what="left at the peak", amount=share(left, Basis.SIMULATED)),
            Evidence(
                what="at the peak",
                amount=hbm_bytes(device.peak_bytes, Basis.SIMULATED),
                line=device.peak_line,
            ),
            Evidence(
                what="of that the program's temporaries",
                amount=hbm_bytes(device.peak_reserved_bytes, Basis.SIMULATED),
            ),
        ),
        line=device.peak_line,
        program=device.peak_program or "",
    )


def _left(device: HbmSummary) -> float:
    return 1 - device.peak_bytes / device.limit_bytes if device.limit_bytes else 1.0


def _severity(left: float) -> Severity:
    return Severity.MEDIUM if left < _NEXT_TO_NOTHING else Severity.LOW


RULE = Rule(
    code="M102",
    slug="near-the-limit",
    group=Group.MEMORY,
    title="A program or a run fits with less than 3 % of HBM left",
    why="Temporaries move by some percent from one release of the compiler to the next and with the shape of "
    "the input, and other programs of the run need memory beside it. What fits by less than that "
    "may not fit tomorrow.",
    change="Free a few percent: donate, shard, compute again, or take a smaller batch.",
    limits="A program that was tuned to fill the chip on purpose is told too. Below 1 % it is medium, else low.",
    fixes=("donate", "batch-size", "checkpoint", "chunked-loss"),
    in_program=in_program,
    in_run=in_run,
)
