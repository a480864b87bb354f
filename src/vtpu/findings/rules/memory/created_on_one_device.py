"""Arrays that are created whole on one device and only then spread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from vtpu.analysis.run.failures import MemoryFailure
from vtpu.analysis.run.scattered import Scattered, find_scattered, most_at_once
from vtpu.analysis.source.keepers import assigned_name
from vtpu.analysis.source.spreading import (
    Spreading,
    creation_on,
    spreading_of,
    spreading_on,
    upload_on,
)
from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import place
from vtpu.recording.events import EventKind
from vtpu.units import format_bytes

_LEAST_BYTES = 16 << 20


def find(subject: RunSubject) -> Iterable[Finding]:
    """A finding for each line that spreads such arrays; also for one that found no room to be created."""
    by_line: dict[SourceLine, list[Scattered]] = defaultdict(list)
    for scattered in find_scattered(subject.recording):
        by_line[subject.lines.line(scattered.stack)].append(scattered)
    for line, found in by_line.items():
        if most_at_once(found) >= _LEAST_BYTES:
            yield _finding(subject, line, found)
    for failure in subject.summary.failures[:1]:
        if spreading := _would_spread(subject, failure):
            yield _not_created(subject, failure, spreading)


# ---- what was spread ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Peaks:
    """The most HBM that the device with the whole arrays took, and the median of the others."""

    here: int
    others: int

    @property
    def more(self) -> int:
        """What the device took more than the others."""
        return max(0, self.here - self.others)


def _finding(subject: RunSubject, line: SourceLine, found: list[Scattered]) -> Finding:
    has_failed = any(s.has_failed for s in found) and subject.recording.exit_code != 0
    size, largest = most_at_once(found), max(found, key=lambda s: s.bytes)
    peaks = _peaks(subject, largest.device)
    more = min(peaks.more, 2 * size)  # the arrays and their pieces
    what = f"{largest.shape} is" if len({s.made for s in found}) == 1 else "arrays are"
    fails = " and finds no room for its pieces" if has_failed else ""
    return Finding(
        rule=RULE.slug,
        severity=Severity.CRITICAL
        if has_failed
        else by_share(more, subject.recording.run.hbm_bytes),
        title=f"{what} created whole on device {largest.device} ({format_bytes(size)}) and only then "
        f"spread over {largest.pieces} devices{fails}",
        change=_change(subject, line, found),
        evidence=tuple(_evidence(subject, line, found, peaks)),
        cost=Cost(hbm=hbm_bytes(more, Basis.SIMULATED)),
        line=line if has_failed else _made_at(subject, largest),
    )


def _peaks(subject: RunSubject, device: int) -> _Peaks:
    others = sorted(h.peak_bytes for h in subject.summary.hbm if h.device != device)
    here = next((h.peak_bytes for h in subject.summary.hbm if h.device == device), 0)
    return _Peaks(here, others[len(others) // 2] if others else 0)


def _made_at(subject: RunSubject, scattered: Scattered) -> SourceLine:
    return subject.lines.line(int(subject.recording.events["stack"][scattered.made]))


def _change(subject: RunSubject, line: SourceLine, found: list[Scattered]) -> str:
    """How the arrays get their shardings when they are made, in the program's own words."""
    largest, file = max(found, key=lambda s: s.bytes), subject.files.get(line.file)
    spreading = spreading_on(file, line.line) if file else None
    made = _made_at(subject, largest)
    upload = _upload(subject, made) if _is_upload(subject, largest) else None
    if upload:
        sharding = _sharding(spreading)
        return (
            f"`jax.device_put({upload}, {sharding})` of the host's array: each device gets its part"
        )
    is_one = len({s.made for s in found}) == 1
    return _created_with(subject, made, spreading, is_one=is_one)


def _sharding(spreading: Spreading | None) -> str:
    return spreading.sharding if spreading else "sharding"


def _upload(subject: RunSubject, made: SourceLine) -> str | None:
    file = subject.files.get(made.file)
    return upload_on(file, made.line) if file else None


def _is_upload(subject: RunSubject, scattered: Scattered) -> bool:
    """Whether the host sent the array: nothing but a transfer had filled it, or what it is staged from."""
    stack = subject.recording.events["stack"][scattered.made]
    sent = subject.recording.events["kind"] == EventKind.HOST_TO_DEVICE
    large = subject.recording.events["bytes"] >= scattered.bytes // 2
    return bool((sent & large & (subject.recording.events["stack"] == stack)).any())


def _created_with(
    subject: RunSubject, made: SourceLine, spreading: Spreading | None, *, is_one: bool
) -> str:
    sharding, file = _sharding(spreading), subject.files.get(made.file)
    creation = creation_on(file, made.line) if file and is_one else None
    if creation:
        return f"create it in pieces: `{creation[:-1]}, device={sharding})` at {place(made)}"
    function = made.function.rsplit(".", 1)[-1]
    init = function if function.isidentifier() else "init"
    return (
        f"create them in pieces: `jax.jit({init}, out_shardings={sharding})`, so that each device makes its own "
        f"part of what {place(made)} makes"
    )


def _evidence(
    subject: RunSubject, line: SourceLine, found: list[Scattered], peaks: _Peaks
) -> Iterable[Evidence]:
    for scattered in sorted(found, key=lambda s: -s.bytes)[:_MOST]:
        size = hbm_bytes(scattered.bytes, Basis.SIMULATED)
        made = _made_at(subject, scattered)
        yield Evidence(
            what=f"{scattered.shape} on device {scattered.device}", amount=size, line=made
        )
    part = hbm_bytes(most_at_once(found) // found[0].pieces, Basis.SIMULATED)
    yield Evidence(what="in pieces, on each device", amount=part, line=line)
    here, others = (hbm_bytes(n, Basis.SIMULATED) for n in (peaks.here, peaks.others))
    yield Evidence(what=f"peak of device {found[0].device}", amount=here)
    yield Evidence(what="peak of the other devices", amount=others)
    if any(s.has_failed for s in found):
        need = max((s.bytes for s in found if s.has_failed), default=0) * 2
        text = f"the array and all its pieces at once: {format_bytes(need)}"
        yield Evidence(what="needed to spread it", text=text)


# ---- what found no room to be created ----------------------------------------------------------


def _would_spread(subject: RunSubject, failure: MemoryFailure) -> Spreading | None:
    """The call that would have spread what found no room on one device, while others have as much free."""
    limit = subject.recording.run.hbm_bytes
    others = [h.peak_bytes for h in subject.summary.hbm if h.device != failure.device]
    file = subject.files.get(failure.line.file)
    if not others or failure.is_reservation or file is None or max(others) > limit / 2:
        return None
    name = assigned_name(subject.files, failure.line)
    return spreading_on(file, failure.line.line) or (spreading_of(file, name) if name else None)


def _not_created(subject: RunSubject, failure: MemoryFailure, spreading: Spreading) -> Finding:
    peaks = _peaks(subject, failure.device)
    wanted, free = failure.wanted_bytes, failure.free_bytes
    return Finding(
        rule=RULE.slug,
        severity=Severity.CRITICAL if subject.recording.exit_code != 0 else Severity.HIGH,
        title=f"{spreading.value} of {format_bytes(wanted)} finds no room on device {failure.device}, where it "
        f"would be whole before it is spread: {format_bytes(free)} are free",
        change=_created_with(subject, failure.line, spreading, is_one=True),
        evidence=(
            Evidence(what="wanted", amount=hbm_bytes(wanted, Basis.SIMULATED), line=failure.line),
            Evidence(what="free there", amount=hbm_bytes(free, Basis.SIMULATED)),
            Evidence(what="peak of other devices", amount=hbm_bytes(peaks.others, Basis.SIMULATED)),
        ),
        cost=Cost(hbm=hbm_bytes(wanted, Basis.SIMULATED)),
        line=failure.line,
        program=failure.program or "",
    )


_MOST = 4

RULE = Rule(
    code="M158",
    slug="created-on-one-device",
    group=Group.MEMORY,
    title="Arrays are created whole on one device and spread only then",
    why="What is created without a sharding lies whole on the first device. To spread it JAX cuts it there, "
    "array and pieces side by side, and copies them to the others: a model that fits the slice fails on "
    "its first chip.",
    change="Create it in pieces: `jnp.zeros(..., device=sharding)`, `jax.jit(init, out_shardings=...)`, or "
    "`jax.device_put` of the NumPy array.",
    limits="Seen by the program that JAX cuts arrays with (`_multi_slice`). Copies to all devices "
    "(`PartitionSpec()`) are not looked at: each device needs the whole then. What else makes the first "
    "device's peak larger than the others' is in the figure.",
    fixes=("out-shardings", "shard-parameters"),
    in_run=find,
)
