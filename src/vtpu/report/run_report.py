"""The report of a run, as a document."""

from __future__ import annotations

from vtpu.analysis.failures import MemoryFailure
from vtpu.analysis.memory import HbmSummary
from vtpu.analysis.programs import ProgramSummary
from vtpu.analysis.summary import RunFacts, RunSummary
from vtpu.analysis.transfers import TransferSummary
from vtpu.evidence import Basis
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Document,
    Facts,
    Note,
    Seconds,
    Section,
    Share,
    Table,
)
from vtpu.report.source_text import with_text
from vtpu.units import counted, format_bytes

_MOST_ROWS = 20
_MOST_ALIVE = 8


def run_document(summary: RunSummary, recording_path: str | None = None) -> Document:
    """What happened on the slice. `recording_path`: where it was saved."""
    sections = [_run(summary.run, recording_path)]
    if summary.problems:
        notes = tuple(Note(text, is_warning=True) for text in summary.problems)
        sections.append(Section("Problems", notes))
    sections += [_failure(f) for f in summary.failures]
    if not summary.programs and not summary.transfers:
        sections.append(Section("Nothing ran on the slice", (_never_used(summary.run),)))
        return Document("vtpu report", tuple(sections))
    sections.append(_programs(summary.programs))
    sections.append(_hbm(summary))
    if summary.transfers:
        sections.append(_transfers(summary.transfers))
    if again := [p for p in summary.programs if p.compiles > 1]:
        sections.append(_compiled_again(again))
    if failed := [c for p in summary.programs for c in p.compilations if c.error]:
        rows = tuple((with_text(c.line), c.error or "") for c in failed)
        table = Table((Column("line"), Column("error", Basis.COMPILER, wraps=True)), rows)
        sections.append(Section("Programs that did not compile", (table,)))
    sections.append(_values(summary))
    if summary.unsupported_calls:
        unsupported = tuple(
            (c.function, Count(c.count), with_text(c.line)) for c in summary.unsupported_calls
        )
        columns = (Column("function"), Column("calls", Basis.SIMULATED), Column("line"))
        sections.append(Section("Calls that are not simulated", (Table(columns, unsupported),)))
    return Document("vtpu report", tuple(sections))


def _run(run: RunFacts, recording_path: str | None) -> Section:
    hosts = f"host {run.host} of {run.num_hosts}" if run.num_hosts > 1 else "one host"
    versions = " · ".join(f"{name} {version}" for name, version in run.versions.items())
    name = run.slice
    if run.slice_asked.lower() != name:
        name = f"{run.slice_asked} = {name}"
    pairs: list[tuple[str, Cell]] = [
        ("slice", f"{name} ({run.device_kind}), {counted(run.num_devices, 'device')}"),
        ("this process", f"{hosts}, {counted(run.num_local_devices, 'device')}"),
        ("HBM per device", Bytes(run.hbm_bytes_per_device)),
        ("versions", versions),
    ]
    if run.wall_s is not None:
        pairs.append(("wall time", Seconds(run.wall_s)))
    if run.exit_code:
        pairs.append(("exit code", str(run.exit_code)))
    if recording_path:
        pairs.append(("recording", recording_path))
    return Section("Run", (Facts(tuple(pairs)),))


def _never_used(run: RunFacts) -> Note:
    return Note(
        "The program made no array and compiled nothing on the TPU. Does it select another "
        f"platform (jax_platforms, JAX_PLATFORMS) than the virtual {run.slice}?"
    )


def _failure(failure: MemoryFailure) -> Section:
    wanted = format_bytes(failure.wanted_bytes)
    what = (
        f"{wanted} for the temporaries of {failure.program}" if failure.is_reservation else wanted
    )
    why = (
        "enough was free, but not in one piece (fragmentation)"
        if failure.is_fragmentation
        else "not enough was free"
    )
    blocks: list[Block] = [
        Facts(
            (
                ("line", with_text(failure.line)),
                ("wanted", f"{what} on device {failure.device}"),
                ("free", f"{format_bytes(failure.free_bytes)}: {why}"),
            )
        )
    ]
    rows = tuple(
        (Bytes(g.bytes), Count(g.count), g.shape, g.program or "host", with_text(g.line))
        for g in failure.alive[:_MOST_ALIVE]
    )
    columns = (
        Column("alive", Basis.SIMULATED),
        Column("arrays", Basis.SIMULATED),
        Column("shape"),
        Column("made by"),
        Column("line"),
    )
    blocks.append(Table(columns, rows, max(0, len(failure.alive) - _MOST_ALIVE)))
    return Section("Out of memory", tuple(blocks))


def _programs(programs: tuple[ProgramSummary, ...]) -> Section:
    shown = sorted(programs, key=lambda p: -p.need_bytes)[:_MOST_ROWS]
    rows = tuple(
        (
            p.name,
            Count(p.compiles),
            Count(p.calls),
            Bytes(p.argument_bytes),
            Bytes(p.output_bytes),
            Bytes(p.alias_bytes),
            Bytes(p.temp_bytes),
            Bytes(p.need_bytes),
            Seconds(p.compile_s),
            with_text(p.line, width=32),
        )
        for p in shown
    )
    columns = (
        Column("program"),
        Column("compiles", Basis.SIMULATED),
        Column("calls", Basis.SIMULATED),
        Column("args", Basis.COMPILER),
        Column("outputs", Basis.COMPILER),
        Column("donated", Basis.COMPILER),
        Column("temps", Basis.COMPILER),
        Column("peak", Basis.COMPILER),
        Column("compile", Basis.MEASURED),
        Column("line"),
    )
    table = Table(columns, rows, len(programs) - len(shown))
    cached = sum(p.from_cache for p in programs)
    total = sum(p.compiles for p in programs)
    note = Note(
        f"{counted(total, 'compilation')}, {cached} of them known from earlier. Sizes are per device, of the "
        "largest program of a name; peak = args + outputs - donated + temps."
    )
    return Section("Programs", (table, note))


def _hbm(summary: RunSummary) -> Section:
    rows = tuple(
        (
            str(h.device),
            Bytes(h.in_use_bytes),
            Bytes(h.peak_bytes),
            Share(h.peak_bytes, h.limit_bytes),
            Bytes(h.limit_bytes),
            h.peak_program or "",
            with_text(h.peak_line) if h.peak_bytes else "",
        )
        for h in _distinct(summary)
    )
    columns = (
        Column("device"),
        Column("in use at end", Basis.SIMULATED),
        Column("peak", Basis.SIMULATED),
        Column("of limit", Basis.SIMULATED),
        Column("limit", Basis.COMPILER),
        Column("program at peak"),
        Column("line at peak"),
    )
    return Section("HBM", (Table(columns, rows, len(summary.hbm) - len(rows)),))


def _distinct(summary: RunSummary) -> list[HbmSummary]:
    """The first of the devices whose memory was used alike."""
    first: dict[object, HbmSummary] = {}
    for h in summary.hbm:
        first.setdefault((h.in_use_bytes, h.peak_bytes, h.peak_line, h.peak_program), h)
    return list(first.values())


def _transfers(transfers: tuple[TransferSummary, ...]) -> Section:
    shown = transfers[:_MOST_ROWS]
    rows = tuple(
        (
            str(t.direction),
            Count(t.count),
            Bytes(t.bytes),
            Bytes(t.largest_bytes),
            with_text(t.line),
        )
        for t in shown
    )
    columns = (
        Column("direction"),
        Column("times", Basis.SIMULATED),
        Column("bytes", Basis.SIMULATED),
        Column("largest", Basis.SIMULATED),
        Column("line"),
    )
    return Section("Transfers", (Table(columns, rows, len(transfers) - len(shown)),))


def _compiled_again(programs: list[ProgramSummary]) -> Section:
    rows = [
        (p.name, with_text(c.line, width=40), c.reason or _own_reason(p))
        for p in programs
        for c in p.compilations[1:]
    ]
    shown = tuple(rows[:_MOST_ROWS])
    columns = (Column("program"), Column("line"), Column("reason", Basis.JAX, wraps=True))
    table = Table(columns, shown, len(rows) - len(shown))
    return Section("Compiled more than once", (table,))


def _own_reason(program: ProgramSummary) -> str:
    if program.distinct == 1:
        return "the same program again: JAX saw another function object or other devices"
    return "another shape, type, layout, sharding or device (JAX gave no reason)"


def _values(summary: RunSummary) -> Section:
    values = summary.fabricated_values
    if not values:
        return Section("Simulated values", (Note("The program looked at none."),))
    rows = tuple((v.how, Count(v.count), Bytes(v.bytes), with_text(v.line)) for v in values)
    columns = (
        Column("how"),
        Column("times", Basis.SIMULATED),
        Column("bytes", Basis.SIMULATED),
        Column("line"),
    )
    note = Note(
        "The slice computes no numbers: these lines saw zeros; `as here` is what this host sent, "
        "where JAX asked what other hosts have. Decisions that the program took from them may "
        "differ from a real run.",
        is_warning=True,
    )
    shown = rows[:_MOST_ROWS]
    return Section("Simulated values", (note, Table(columns, shown, len(rows) - len(shown))))
