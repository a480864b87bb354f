"""The report of a replay: HBM over the run, as a document."""

from __future__ import annotations

import math

from vtpu.analysis.replay.allocators import AllocatorFacts
from vtpu.analysis.replay.summary import DeviceReplay, Moment, ReplaySummary, RunFailure, Varied
from vtpu.evidence import Basis
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Document,
    Facts,
    NoFigure,
    Note,
    Seconds,
    Section,
    Share,
    Table,
)
from vtpu.report.failure_tables import (
    SourceLines,
    alive_table,
    in_the_way_table,
    what_if_blocks,
    what_if_table,
    why_text,
)
from vtpu.report.source_text import Sources
from vtpu.units import counted, format_bytes, format_seconds

_MOST_DEVICES = 20
_MODELS = {
    "tpu": "the TPU runtime's, two-ended",
    "bfc": "XLA's GPU client as JAX sets it (BFC, preallocated)",
    "growth": "TensorFlow's with growth (BFC, growing regions)",
}


def replay_document(summary: ReplaySummary) -> Document:
    """HBM over the run under the allocator that was asked for."""
    line = Sources(summary.run.folder).line
    sections = [_what(summary)]
    if problems := _problems(summary):
        sections.append(Section("Problems", problems))
    first, *others = sorted(summary.devices, key=_urgency)
    sections += _device(first, line)
    if others:
        sections.append(_others(others, line))
    sections.append(_assumptions(summary.allocator))
    return Document("vtpu replay", tuple(sections))


def _problems(summary: ReplaySummary) -> tuple[Note, ...]:
    texts = list(summary.problems)
    if summary.run.covered_s is not None:
        until = format_seconds(summary.run.covered_s)
        texts.append(f"the recording covers the first {until}: the replay ends there")
    return tuple(Note(text, is_warning=True) for text in texts)


def _what(summary: ReplaySummary) -> Section:
    allocator = summary.allocator
    pairs: list[tuple[str, Cell]] = [
        ("recorded on", summary.run.slice),
        ("allocator", f"{allocator.name}: {_MODELS[allocator.name]}"),
        ("slice", allocator.slice),
        ("HBM per device", Bytes(allocator.hbm_bytes)),
    ]
    if allocator.fraction is not None:
        limit = f"{format_bytes(allocator.limit_bytes)} ({100 * allocator.fraction:g} %)"
        pairs.append(("limit", limit))
    verdict = "everything finds room" if summary.fits else "not everything finds room"
    facts = Facts((*pairs, ("result", verdict)))
    return Section("Replay", (facts, *_not_compiled(summary.not_compiled)))


def _not_compiled(names: tuple[str, ...]) -> tuple[Note, ...]:
    if not names:
        return ()
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    text = (
        f"{counted(len(names), 'program')} of the recorded run did not compile ({shown}): nothing that "
        "would have followed is in the replay. `vtpu explain` says why."
    )
    return (Note(text, is_warning=True),)


def _urgency(device: DeviceReplay) -> tuple[int | float, int]:
    """The first failure comes first, then the fullest device."""
    first = device.failures[0].event if device.failures else math.inf
    return first, -device.peak_bytes


def _others(devices: list[DeviceReplay], line: SourceLines) -> Section:
    """Devices of which the whole story is in the JSON."""
    rows = tuple(
        (
            _devices_text(d.devices).partition(" ")[2],
            Bytes(d.peak_bytes),
            _size(d.lowest_largest_free_bytes),
            _size(d.lowest_reservable_bytes),
            Share(d.worst.free_bytes - d.worst.largest_free_bytes, d.worst.free_bytes)
            if d.worst
            else NoFigure(),
            d.failures[0].lack if d.failures else NoFigure(),
            line(d.failures[0].line) if d.failures else "",
        )
        for d in devices[:_MOST_DEVICES]
    )
    columns = (
        Column("devices"),
        Column("peak", Basis.SIMULATED),
        Column("lowest largest piece", Basis.SIMULATED),
        Column("lowest reservable", Basis.SIMULATED),
        Column("highest fragmentation", Basis.SIMULATED),
        Column("lack of", Basis.SIMULATED),
        Column("line of the first failure"),
    )
    more = max(0, len(devices) - _MOST_DEVICES)
    note = Note("Their memory over the run is in the JSON report (--json).")
    return Section("Other devices", (Table(columns, rows, more), note))


def _device(device: DeviceReplay, line: SourceLines) -> list[Section]:
    name = _devices_text(device.devices)
    sections: list[Section] = []
    if device.failures:
        sections.append(_first_failure(device, name, line))
    sections.append(_over_the_run(device, name, line))
    if device.what_ifs and not device.failures:
        sections.append(_in_pieces(device, name, line))
    if device.varied:
        sections.append(_varied(device.varied, name, line))
    if device.varied is None:
        note = Note("Not tried: the run is too long for as many replays.")
        sections.append(Section(f"Other assumptions on {name}", (note,)))
    return sections


def _devices_text(devices: tuple[int, ...]) -> str:
    if len(devices) == 1:
        return f"device {devices[0]}"
    shown = ", ".join(map(str, devices[:8])) + (", …" if len(devices) > 8 else "")
    return f"devices {shown}"


def _first_failure(device: DeviceReplay, name: str, line: SourceLines) -> Section:
    failure = device.failures[0]
    is_fragmentation = failure.lack != "bytes"
    pairs: list[tuple[str, Cell]] = [
        ("line", line(failure.line)),
        ("wanted", _wanted(failure)),
        (
            "free",
            f"{format_bytes(failure.free_bytes)}: {why_text(is_fragmentation=is_fragmentation)}",
        ),
        ("largest piece", Bytes(failure.largest_free_bytes)),
        ("reservable", Bytes(failure.reservable_bytes)),
        ("when recorded", "it failed too" if failure.is_recorded else "it found room"),
    ]
    blocks: list[Block] = [Facts(tuple(pairs))]
    if failure.in_the_way:
        blocks.append(in_the_way_table(failure.in_the_way, line))
    blocks.append(alive_table(failure.alive, line))
    if device.what_ifs:
        blocks += what_if_blocks(device.what_ifs, line)
    if device.num_failures > 1:
        more = counted(device.num_failures - 1, "more request")
        blocks.append(Note(f"{more} of the recorded run found no room later."))
    return Section(f"Out of memory on {name}", tuple(blocks))


def _wanted(failure: RunFailure) -> str:
    wanted = format_bytes(failure.wanted_bytes)
    if failure.is_reservation:
        return f"{wanted} for the temporaries of {failure.program}"
    return f"{wanted} for an output of {failure.program}" if failure.program else wanted


def _over_the_run(device: DeviceReplay, name: str, line: SourceLines) -> Section:
    blocks: list[Block] = [Facts(tuple(_extremes(device, line)))]
    rows = tuple(_moment(moment, line) for moment in device.moments)
    blocks.append(Table(_MOMENT_COLUMNS, rows))
    if device.is_cut:
        blocks.append(
            Note(
                f"The replay ends at the failure, after {counted(device.replayed, 'request')} of "
                f"{device.requests:,}: what the program would have done then is not known.",
                is_warning=True,
            )
        )
    if device.fitted:
        blocks.append(
            Note(
                f"{counted(device.fitted, 'request')} that found no room in the recorded run fit here: "
                "what the program would have done then is not known."
            )
        )
    return Section(f"HBM over the run on {name}", tuple(blocks))


def _extremes(device: DeviceReplay, line: SourceLines) -> list[tuple[str, Cell]]:
    pairs: list[tuple[str, Cell]] = [
        ("requests", Count(device.requests)),
        ("peak", Bytes(device.peak_bytes)),
        ("peak at", line(device.peak.line) if device.peak else NoFigure()),
        ("lowest largest piece", _size(device.lowest_largest_free_bytes)),
        ("lowest reservable", _size(device.lowest_reservable_bytes)),
        ("taken from the chip", Bytes(device.pool_bytes)),
    ]
    if worst := device.worst:
        text = (
            f"{100 * worst.fragmentation:.1f} %: {format_bytes(worst.largest_free_bytes)} is the largest "
            f"piece of {format_bytes(worst.free_bytes)} free"
        )
        pairs.append(("highest fragmentation", text))
        if worst.largest_free_bytes < worst.free_bytes:
            pairs.append(("highest at", line(worst.line)))
    return pairs


def _size(size: int | None) -> Cell:
    return NoFigure() if size is None else Bytes(size)


def _moment(moment: Moment, line: SourceLines) -> tuple[Cell, ...]:
    return (
        Seconds(moment.time_s),
        Bytes(moment.in_use_bytes),
        Bytes(moment.reserved_bytes),
        Bytes(moment.largest_free_bytes),
        Bytes(moment.reservable_bytes),
        Share(moment.free_bytes - moment.largest_free_bytes, moment.free_bytes),
        moment.program or "host",
        line(moment.line),
    )


_MOMENT_COLUMNS = (
    Column("time", Basis.MEASURED),
    Column("in use", Basis.SIMULATED),
    Column("reserved", Basis.SIMULATED),
    Column("largest free", Basis.SIMULATED),
    Column("reservable", Basis.SIMULATED, is_minor=True),
    Column("fragmentation", Basis.SIMULATED),
    Column("program"),
    Column("line"),
)


def _in_pieces(device: DeviceReplay, name: str, line: SourceLines) -> Section:
    """What would make memory less fragmented at its worst moment, where nothing failed."""
    table = what_if_table(device.what_ifs or (), line)
    return Section(f"Memory in pieces on {name}", (table,))


def _varied(varied: tuple[Varied, ...], name: str, line: SourceLines) -> Section:
    rows = tuple(
        (
            v.what,
            Count(v.failures),
            v.first_failure_lack or NoFigure(),
            _size(v.lowest_reservable_bytes),
            _percent(v.highest_fragmentation),
            line(v.first_failure_line) if v.first_failure_line else "",
        )
        for v in varied
    )
    columns = (
        Column("if instead", wraps=True),
        Column("failures", Basis.MODELLED),
        Column("lack of", Basis.MODELLED),
        Column("lowest reservable", Basis.MODELLED),
        Column("highest fragmentation", Basis.MODELLED),
        Column("line of the first failure"),
    )
    return Section(f"Other assumptions on {name}", (Table(columns, rows),))


def _percent(part: float | None) -> Cell:
    return NoFigure() if part is None else NoFigure(f"{100 * part:.1f} %")


def _assumptions(allocator: AllocatorFacts) -> Section:
    public = tuple(Note(f"public: {text}") for text in allocator.public)
    assumed = tuple(Note(f"assumed: {text}") for text in allocator.assumptions)
    return Section("What this rests on", (*public, *assumed))
