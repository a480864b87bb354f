"""Requests that found no room, or only just, because free memory is in pieces."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.run.failures import MemoryFailure
from vtpu.analysis.run.memory import local_devices
from vtpu.analysis.run.tight_fits import TightFit, find_tight_fits
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import place
from vtpu.units import format_bytes


def find(subject: RunSubject) -> Iterable[Finding]:
    """The first request that failed though as much was free; else programs that nearly did."""
    failed = [f for f in subject.summary.failures if f.is_fragmentation]
    if failed:
        yield _failed(subject, failed[0])
        return
    for device in local_devices(subject.recording)[:1]:
        for fit in find_tight_fits(subject.recording, device)[:1]:
            yield _tight(subject, fit)


def _failed(subject: RunSubject, failure: MemoryFailure) -> Finding:
    piece = failure.reservable_bytes if failure.is_reservation else failure.largest_free_bytes
    which = "piece at the bottom of memory" if failure.is_reservation else "largest piece"
    what = f"{failure.program} finds" if failure.program else "an array finds"
    ended = subject.recording.exit_code != 0
    return Finding(
        rule=RULE.slug,
        severity=Severity.CRITICAL if ended else Severity.HIGH,
        title=f"{what} no piece of {format_bytes(failure.wanted_bytes)}: {format_bytes(failure.free_bytes)} "
        f"are free, but the {which} has {format_bytes(piece)}",
        change=_change(failure),
        evidence=tuple(_evidence(failure, piece, which)),
        cost=Cost(hbm=hbm_bytes(failure.free_bytes - piece, Basis.SIMULATED)),
        line=failure.line,
        program=failure.program or "",
    )


def _change(failure: MemoryFailure) -> str:
    """What avoids the failure when the run is replayed with it."""
    tried = [w for w in failure.what_ifs or () if w.avoids_failure]
    helps = [w for w in tried if w.kind != "freeing unused arrays"]  # may be needed later
    if helps:
        ways = "; or ".join(f"{w.what} ({place(w.line)})" if w.line else w.what for w in helps[:2])
        return f"{ways}: replayed, this request finds its piece then"
    walls = ", ".join(dict.fromkeys(place(a.line) for a in failure.in_the_way[:_MOST]))
    return f"make what stays before what comes and goes, or free what is in the way first (made at {walls})"


def _evidence(failure: MemoryFailure, piece: int, which: str) -> Iterable[Evidence]:
    yield _bytes("wanted in one piece", failure.wanted_bytes)
    yield _bytes("free", failure.free_bytes)
    yield _bytes(which, piece)
    for array in failure.in_the_way[:_MOST]:
        size = hbm_bytes(array.bytes, Basis.SIMULATED)
        yield Evidence(what=f"in the way: {array.shape}", amount=size, line=array.line)


def _bytes(what: str, size: int) -> Evidence:
    return Evidence(what=what, amount=hbm_bytes(size, Basis.SIMULATED))


def _tight(subject: RunSubject, fit: TightFit) -> Finding:
    temp, elsewhere = fit.program.temp_bytes, fit.elsewhere_bytes
    event = subject.recording.events[fit.row]
    return Finding(
        rule=RULE.slug,
        severity=Severity.MEDIUM,
        title=f"{fit.program.name} nearly finds no piece of {format_bytes(temp)}: "
        f"{format_bytes(fit.left_bytes)} of it are left, while {format_bytes(elsewhere)} are free in pieces "
        "elsewhere",
        change="make the arrays that stay before those that come and go, so that what is freed joins; "
        "`vtpu replay` shows which changes give a larger piece",
        evidence=(
            _bytes("temporaries, in one piece", temp),
            _bytes("piece at the bottom of memory", fit.gaps.at_bottom),
            _bytes("free in all", fit.gaps.free),
        ),
        cost=Cost(hbm=hbm_bytes(elsewhere, Basis.SIMULATED)),
        line=subject.lines.line(int(event["stack"])),
        program=fit.program.name,
    )


_MOST = 3

RULE = Rule(
    code="M153",
    slug="fragmentation",
    group=Group.MEMORY,
    title="Free memory is in pieces",
    why="An array needs one piece of memory, and so do the temporaries of a program, at the bottom. Arrays "
    "that are freed between others leave holes that neither fits into, however much is free in all.",
    change="Make what stays before what comes and goes, free neighbours together, donate what a step replaces.",
    limits="The TPU runtime's allocator is not public: addresses are those of vtpu's, which moves nothing; "
    "`vtpu replay` tries other assumptions. A near miss is looked for at the last execution of each large "
    "program only.",
    fixes=("donate",),
    in_run=find,
)
