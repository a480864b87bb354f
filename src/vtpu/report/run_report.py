"""The report of a run, as a document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from vtpu.analysis.run.failures import MemoryFailure
from vtpu.analysis.run.memory import HbmSummary
from vtpu.analysis.run.programs import ProgramSummary
from vtpu.analysis.run.summary import RunFacts, RunSummary
from vtpu.analysis.source_lines import SourceLine
from vtpu.chips import UnknownSlice, parse_slice
from vtpu.evidence import Basis
from vtpu.findings.finding import Finding
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Document,
    Facts,
    Line,
    NoFigure,
    Note,
    Seconds,
    Section,
    Share,
    Table,
)
from vtpu.report.failure_tables import (
    alive_table,
    in_the_way_table,
    what_if_blocks,
    why_text,
)
from vtpu.report.findings_sections import findings_sections
from vtpu.report.refused_sections import refused_sections
from vtpu.report.run_time_section import time_section
from vtpu.report.source_text import Sources
from vtpu.units import counted, format_bytes, format_count, format_seconds

_MOST_ROWS = 20
_MOST_FAILURES = 3


_SourceLines = Callable[[SourceLine], Line]


def run_document(
    summary: RunSummary,
    recording_path: str | None = None,
    findings: Sequence[Finding] | None = None,
) -> Document:
    """What happened on the slice. `recording_path`: where it was saved. `findings`: None: nobody looked."""
    line = Sources(summary.run.folder).line
    sections = [_run(summary.run, recording_path)]
    if problems := _problems(summary):
        sections.append(Section("Problems", problems))
    sections += _failures(summary.failures, line)
    sections += refused_sections(summary.programs, line, recording_path)
    if not summary.programs and not summary.transfers:
        sections.append(_nothing(summary))
        return Document("vtpu report", tuple(sections))
    sections.append(_programs(summary.programs, line))
    sections.append(_hbm(summary, line))
    if summary.time:
        sections.append(time_section(summary.time, line))
    if summary.transfers:
        sections.append(_transfers(summary, line))
    if again := [p for p in summary.programs if len(p.compilations) > 1]:
        sections.append(_compiled_again(again, line))
    sections.append(_values(summary, line))
    if summary.unsupported_calls:
        sections.append(_unsupported(summary, line))
    if findings is not None:
        sections += findings_sections(findings, line)
    return Document("vtpu report", tuple(sections))


def _run(run: RunFacts, recording_path: str | None) -> Section:
    hosts = f"host {run.host} of {run.num_hosts}" if run.num_hosts > 1 else "one host"
    versions = " · ".join(f"{name} {version}" for name, version in run.versions.items())
    pairs: list[tuple[str, Cell]] = [
        ("slice", f"{_slice_names(run)} ({run.device_kind}), {counted(run.num_devices, 'device')}"),
        ("this process", f"{hosts}, {counted(run.num_local_devices, 'device')}"),
        ("HBM per device", Bytes(run.hbm_bytes_per_device)),
        ("versions", versions),
    ]
    if run.wall_s is not None:
        pairs.append(("wall time", Seconds(run.wall_s)))
    if run.covered_s is not None:
        pairs.append(("covered", _covered(run)))
    if run.exit_code:
        pairs.append(("exit code", str(run.exit_code)))
    if recording_path:
        pairs.append(("recording", recording_path))
    return Section("Run", (Facts(tuple(pairs)),))


def _slice_names(run: RunFacts) -> str:
    """What was asked for, Cloud's name, the canonical one: `v5p-1024 = v5p:8x8x8`."""
    names = [name for name in (_cloud_name(run.slice), run.slice) if name]
    asked = run.slice_asked.strip()
    if asked.lower() not in names:
        names.insert(0, asked)
    return " = ".join(dict.fromkeys(names))


def _cloud_name(name: str) -> str | None:
    try:
        return parse_slice(name).accelerator_type
    except UnknownSlice:  # the recording is of another release
        return None


def _covered(run: RunFacts) -> str:
    """How much of the run the recording holds."""
    first = f"the first {format_seconds(run.covered_s or 0.0)}"
    return f"{first} of {format_seconds(run.wall_s)}" if run.wall_s is not None else first


def _problems(summary: RunSummary) -> tuple[Note, ...]:
    texts = list(summary.problems)
    if summary.run.covered_s is not None:
        texts.append(
            f"the recording covers {_covered(summary.run)}: what is below counts nothing that "
            "happened later"
        )
    return tuple(Note(text, is_warning=True) for text in texts)


def _nothing(summary: RunSummary) -> Section:
    """Why there is nothing to show. That the program did nothing is known of a whole recording only."""
    if summary.run.covered_s is not None:
        text = "No program and no array is in the part of the recording that can be read."
        return Section("Nothing to show", (Note(text),))
    text = (
        "The program made no array and compiled nothing on the TPU. Does it select another "
        f"platform (jax_platforms, JAX_PLATFORMS) than the virtual {summary.run.slice}?"
    )
    return Section("Nothing ran on the slice", (Note(text),))


def _failures(failures: tuple[MemoryFailure, ...], line: _SourceLines) -> list[Section]:
    """The first of each kind. A program that tries again and again fails in the same way each time."""
    kinds: dict[tuple[object, ...], list[MemoryFailure]] = defaultdict(list)
    for f in failures:
        kinds[f.line, f.program, f.device, f.is_reservation, f.is_fragmentation].append(f)
    groups = list(kinds.values())
    sections = [_failure(group[0], len(group), line) for group in groups[:_MOST_FAILURES]]
    if others := groups[_MOST_FAILURES:]:
        sections.append(_other_failures(others, line))
    return sections


def _other_failures(groups: list[list[MemoryFailure]], line: _SourceLines) -> Section:
    rows = tuple(
        (
            _wanted(group[0]),
            Bytes(group[0].free_bytes),
            why_text(is_fragmentation=group[0].is_fragmentation),
            Count(len(group)),
            line(group[0].line),
        )
        for group in groups[:_MOST_ROWS]
    )
    columns = (
        Column("wanted"),
        Column("free", Basis.SIMULATED),
        Column("why"),
        Column("times", Basis.SIMULATED),
        Column("line"),
    )
    table = Table(columns, rows, max(0, len(groups) - _MOST_ROWS))
    return Section("Out of memory elsewhere", (table,))


def _wanted(failure: MemoryFailure) -> str:
    wanted = format_bytes(failure.wanted_bytes)
    what = f" for the temporaries of {failure.program}" if failure.is_reservation else ""
    return f"{wanted}{what} on device {failure.device}"


def _failure(failure: MemoryFailure, times: int, line: _SourceLines) -> Section:
    pairs: list[tuple[str, Cell]] = [
        ("line", line(failure.line)),
        ("wanted", _wanted(failure)),
        (
            "free",
            (
                f"{format_bytes(failure.free_bytes)}: "
                f"{why_text(is_fragmentation=failure.is_fragmentation)}"
            ),
        ),
    ]
    if times > 1:
        pairs.append(("times", f"{format_count(times)}; below is the first"))
    blocks: list[Block] = []
    if failure.is_fragmentation:
        pairs.append(("largest piece", Bytes(failure.largest_free_bytes)))
        pairs.append(("reservable", Bytes(failure.reservable_bytes)))
    if failure.in_the_way:
        blocks.append(in_the_way_table(failure.in_the_way, line))
    blocks.append(alive_table(failure.alive, line))
    if failure.what_ifs:
        blocks += what_if_blocks(failure.what_ifs, line)
    if failure.what_ifs is None:
        blocks.append(Note("The run is long: `vtpu replay` tries what would have helped."))
    return Section("Out of memory", (Facts(tuple(pairs)), *blocks))


# ---- programs ----------------------------------------------------------------------------------


def _programs(programs: tuple[ProgramSummary, ...], line: _SourceLines) -> Section:
    shown = sorted(programs, key=lambda p: -(p.need_bytes or 0))[:_MOST_ROWS]
    rows = tuple(
        (
            p.name,
            _compiles(p),
            Count(p.calls) if p.compiles else NoFigure(),
            _size(p.argument_bytes),
            _size(p.output_bytes),
            _size(p.alias_bytes),
            _size(p.temp_bytes),
            _size(p.need_bytes),
            NoFigure() if p.compile_s is None else Seconds(p.compile_s),
            line(p.line),
        )
        for p in shown
    )
    columns = (
        Column("program"),
        Column("compiles", Basis.SIMULATED),
        Column("calls", Basis.SIMULATED),
        Column("args", Basis.COMPILER),
        Column("outputs", Basis.COMPILER),
        Column("donated", Basis.COMPILER, is_minor=True),
        Column("temps", Basis.COMPILER),
        Column("peak", Basis.COMPILER),
        Column("compile", Basis.MEASURED, is_minor=True),
        Column("line"),
    )
    blocks: list[Block] = [Table(columns, rows, len(programs) - len(shown))]
    if in_host := [p for p in shown if p.host_bytes]:
        blocks.append(_host_memory_of(in_host))
    return Section("Programs", (*blocks, Note(_counts(programs)), Note(_ABOUT_SIZES)))


_ABOUT_SIZES = (
    "Sizes are bytes of HBM per device, of the largest program of a row; peak = args + outputs - "
    "donated + temps. temps are what the program reserves by its buffer assignment, which may differ "
    "a little from memory_analysis(); the program's code is not counted."
)


def _counts(programs: tuple[ProgramSummary, ...]) -> str:
    known = sum(p.from_cache for p in programs)
    text = f"{counted(sum(p.compiles for p in programs), 'compilation')}, {known:,} of them known from earlier"
    failed = sum(p.failed for p in programs)
    return f"{text}; {failed:,} more did not compile." if failed else f"{text}."


def _compiles(program: ProgramSummary) -> Cell:
    if not program.failed:
        return Count(program.compiles)
    return NoFigure(
        f"{program.compiles:,}, {program.failed:,} failed" if program.compiles else "failed"
    )


def _size(size: int | None) -> Cell:
    return NoFigure() if size is None else Bytes(size)


def _host_memory_of(programs: list[ProgramSummary]) -> Table:
    """What programs keep in host memory, beside HBM."""
    rows = tuple(
        (
            p.name,
            _size(p.host_argument_bytes),
            _size(p.host_output_bytes),
            _size(p.host_alias_bytes),
            _size(p.host_temp_bytes),
        )
        for p in programs
    )
    columns = (
        Column("in host memory"),
        Column("args", Basis.COMPILER),
        Column("outputs", Basis.COMPILER),
        Column("donated", Basis.COMPILER),
        Column("temps", Basis.COMPILER),
    )
    return Table(columns, rows)


def _compiled_again(programs: list[ProgramSummary], line: _SourceLines) -> Section:
    again = [(p, i) for p in programs for i in range(1, len(p.compilations))]
    rows = tuple(
        (p.name, line(p.compilations[i].line), p.compilations[i].reason or f"({_own_reason(p, i)})")
        for p, i in again[:_MOST_ROWS]
    )
    is_own = [not p.compilations[i].reason for p, i in again[:_MOST_ROWS]]
    basis = None if all(is_own) else Basis.JAX
    columns = (Column("program"), Column("line"), Column("reason", basis, wraps=True))
    table = Table(columns, rows, len(again) - len(rows))
    note = Note("A reason in brackets is from comparing the programs: JAX gave none.")
    return Section("Compiled more than once", (table, note) if any(is_own) else (table,))


def _own_reason(program: ProgramSummary, number: int) -> str:
    """Why compilation `number` of a function happened, where JAX gave no reason."""
    if program.compilations[number - 1].error:
        return "it did not compile before"
    if program.distinct == 1:
        return "the same program again: another function object or other devices"
    return "another shape, type, layout, sharding or device"


# ---- memory, transfers, values -----------------------------------------------------------------


def _hbm(summary: RunSummary, line: _SourceLines) -> Section:
    found = _distinct(summary)
    rows = tuple(
        (
            str(h.device),
            Bytes(h.in_use_bytes),
            Bytes(h.peak_bytes),
            Share(h.peak_bytes, h.limit_bytes),
            Bytes(h.limit_bytes),
            h.peak_program or "",
            line(h.peak_line) if h.peak_bytes else "",
        )
        for h in found
    )
    columns = (
        Column("device"),
        Column("in use at end", Basis.SIMULATED),
        Column("peak", Basis.SIMULATED),
        Column("of limit", Basis.SIMULATED),
        Column("limit", Basis.COMPILER, is_minor=True),
        Column("program at peak"),
        Column("line at peak"),
    )
    blocks = [Table(columns, rows, len(summary.hbm) - len(rows))]
    if in_pieces := [h for h in found if _is_in_pieces(h)]:
        blocks.append(_pieces(in_pieces))
    if any(h.host_peak_bytes for h in found):
        host_rows = tuple(
            (str(h.device), Bytes(h.host_in_use_bytes), Bytes(h.host_peak_bytes)) for h in found
        )
        names = ("host memory in use at end", "host memory at peak")
        host_columns = (Column("device"), *(Column(n, Basis.SIMULATED) for n in names))
        blocks.append(Table(host_columns, host_rows, len(summary.hbm) - len(rows)))
    return Section("HBM", tuple(blocks))


def _is_in_pieces(hbm: HbmSummary) -> bool:
    """Whether enough of free memory lies outside of its largest piece to be seen in a report."""
    return 1000 * (hbm.free_bytes - hbm.largest_free_bytes) >= hbm.free_bytes


def _pieces(found: list[HbmSummary]) -> Table:
    """Free memory that is not one piece, when the program ended."""
    rows = tuple(
        (
            str(h.device),
            Bytes(h.free_bytes),
            Bytes(h.largest_free_bytes),
            Bytes(h.reservable_bytes),
            Share(h.free_bytes - h.largest_free_bytes, h.free_bytes),
        )
        for h in found
    )
    names = ("free at end", "largest piece", "reservable", "fragmentation")
    columns = (Column("device"), *(Column(name, Basis.SIMULATED) for name in names))
    return Table(columns, rows)


def _distinct(summary: RunSummary) -> list[HbmSummary]:
    """The first of the devices whose memory was used alike."""
    first: dict[HbmSummary, HbmSummary] = {}
    for h in summary.hbm:
        first.setdefault(replace(h, device=0), h)
    return list(first.values())


def _transfers(summary: RunSummary, line: _SourceLines) -> Section:
    shown = summary.transfers[:_MOST_ROWS]
    rows = tuple(
        (
            str(t.direction),
            Count(t.count),
            Bytes(t.bytes),
            Bytes(t.largest_bytes),
            line(t.line),
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
    table = Table(columns, rows, len(summary.transfers) - len(shown))
    is_guessed = any(v.how == "callback" for v in summary.fabricated_values)
    return Section("Transfers", (table, _CALLED_ONCE) if is_guessed else (table,))


_CALLED_ONCE = Note(
    "A callback whose values were not computed is called once per execution, also where it stands in "
    "a loop or a branch: on a TPU it may be called more often, or not at all."
)


def _values(summary: RunSummary, line: _SourceLines) -> Section:
    return Section("Values", (_what_was_computed(summary), *_what_was_made_up(summary, line)))


def _what_was_computed(summary: RunSummary) -> Note:
    values = summary.values
    if not values.reads:
        return Note("The program looked at none.")
    if values.mode == "zeros":
        return Note("Values are switched off (--values zeros).")
    if values.computed_s is None:
        return Note("How much was computed is not known.")
    kept = format_bytes(values.peak_memory_bytes or 0)
    if values.peak_disk_bytes:
        kept += f", and {format_bytes(values.peak_disk_bytes)} on disk"
    return Note(
        f"{counted(values.reads, 'value')} went to the host; {format_count(values.computed_reads or 0)} "
        f"of them were computed, on this machine's CPU, in {format_seconds(values.computed_s)}: "
        f"no event of the slice. Contents of arrays took at most {kept}. (measured)"
    )


def _what_was_made_up(summary: RunSummary, line: _SourceLines) -> tuple[Block, ...]:
    values = summary.fabricated_values
    if not values:
        return ()
    shown = values[:_MOST_ROWS]
    rows = tuple((v.how, Count(v.count), Bytes(v.bytes), line(v.line), v.why) for v in shown)
    columns = (
        Column("how"),
        Column("times", Basis.SIMULATED),
        Column("bytes", Basis.SIMULATED),
        Column("line"),
        Column("why"),
    )
    note = Note(
        "These lines saw values that could not be had: zeros, unless --unknown says otherwise; `as "
        "here` is what this host sent, where JAX asked what other hosts have. Decisions that the "
        "program took from them may differ from a real run.",
        is_warning=True,
    )
    return note, Table(columns, rows, len(values) - len(shown))


def _unsupported(summary: RunSummary, line: _SourceLines) -> Section:
    rows = tuple(
        (c.function, Count(c.count), line(c.line)) for c in summary.unsupported_calls[:_MOST_ROWS]
    )
    columns = (Column("function"), Column("calls", Basis.SIMULATED), Column("line"))
    table = Table(columns, rows, len(summary.unsupported_calls) - len(rows))
    return Section("Calls that are not simulated", (table,))
