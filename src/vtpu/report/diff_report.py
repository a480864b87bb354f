"""The report of a comparison, as a document: of two programs, or of two runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from vtpu.analysis.diff.changes import Figure, Pair
from vtpu.analysis.diff.memory import MemoryDiff
from vtpu.analysis.diff.runs import (
    DeviceDiff,
    FailureFacts,
    ProgramDiff,
    ProgramFacts,
    RunDiff,
    TransferFacts,
)
from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.report.document import (
    Block,
    Cell,
    Column,
    CountChange,
    Document,
    Facts,
    NoFigure,
    Note,
    Section,
    Table,
)
from vtpu.report.memory_diff_sections import change_cell, memory_sections, size_cell
from vtpu.report.source_text import Sources
from vtpu.units import counted

_TITLE = "vtpu diff"
_MOST_ROWS = 20
_MOST_PROGRAMS = 3  # whose memory is shown in full


def memory_diff_document(diff: MemoryDiff, before: str, after: str, folder: str = "") -> Document:
    """What differs between two programs; `before` and `after` say where they come from.

    Files are named from `folder`.
    """
    names = (("before", f"{before} ({diff.before})"), ("after", f"{after} ({diff.after})"))
    sections = [Section("Compared", (Facts(names),))]
    if diff.is_empty:
        text = "Nothing differs: both have the same buffers, of the same sizes, alive at the same peak."
        sections.append(Section("Memory", (Note(text),)))
    sources = Sources(folder)
    sections += memory_sections(diff, sources, sources)
    return Document(_TITLE, tuple(sections))


def run_diff_document(diff: RunDiff, before: str, after: str) -> Document:
    """What differs between two runs; `before` and `after` are their recordings."""
    sections = [_compared(diff, before, after), *_warnings(_problems(diff, before, after))]
    if diff.is_empty:
        text = (
            "Nothing differs: the same slice and releases, programs, calls, memory, transfers and "
            "failures. How long the runs took is not compared."
        )
        sections.append(Section("Runs", (Note(text),)))
        return Document(_TITLE, tuple(sections))
    lines = _Lines(Sources(diff.before.folder), Sources(diff.after.folder))
    if diff.failures:
        sections.append(_failures(diff.failures, lines))
    if diff.programs:
        sections.append(_programs(diff.programs, lines))
    if diff.devices:
        sections.append(_devices(diff.devices))
    if diff.transfers:
        sections.append(_transfers(diff.transfers, lines))
    sections += _memories(diff.programs, lines)
    return Document(_TITLE, tuple(sections))


def _warnings(problems: Sequence[str]) -> tuple[Section, ...]:
    notes = tuple(Note(text, is_warning=True) for text in problems)
    return (Section("Problems", notes),) if notes else ()


def _problems(diff: RunDiff, before: str, after: str) -> tuple[str, ...]:
    return (
        *(f"{before}: {text}" for text in diff.problems_before),
        *(f"{after}: {text}" for text in diff.problems_after),
    )


def _compared(diff: RunDiff, before: str, after: str) -> Section:
    facts = Facts((("before", before), ("after", after)))
    if not diff.settings:
        return Section("Compared", (facts,))
    rows = tuple((s.name, _text(s.before), _text(s.after)) for s in diff.settings)
    columns = (
        Column("what is another"),
        Column("before", wraps=True),
        Column("after", wraps=True),
    )
    return Section("Compared", (facts, Table(columns, rows)))


def _text(text: str | None) -> Cell:
    return NoFigure() if text is None else text


class _Lines:
    """Lines of either run."""

    def __init__(self, before: Sources, after: Sources) -> None:
        self.before = before
        self.after = after

    def __call__(self, before: SourceLine | None, after: SourceLine | None) -> Cell:
        """Where something is now, or was."""
        if after:
            return self.after.line(after)
        return self.before.line(before) if before else ""


# ---- programs ----------------------------------------------------------------------------------


def _programs(programs: tuple[ProgramDiff, ...], line: _Lines) -> Section:
    visible = [p for p in programs if _has_other_figures(p.programs)]
    rows = tuple(_program(p.programs, line) for p in visible[:_MOST_ROWS])
    columns = (
        Column("program"),
        Column("change"),
        Column("peak before", Basis.COMPILER),
        Column("after", Basis.COMPILER),
        Column("difference", Basis.COMPILER),
        Column("compiles", Basis.SIMULATED),
        Column("calls", Basis.SIMULATED),
        Column("line"),
    )
    blocks: list[Block] = []
    if rows:
        blocks.append(Table(columns, rows, len(visible) - len(rows)))
    if others := len(programs) - len(visible):
        verb = "is another one" if others == 1 else "are other ones"
        blocks.append(Note(f"{counted(others, 'more program')} {verb} with the same figures."))
    return Section("Programs", tuple(blocks))


def _has_other_figures(pair: Pair[ProgramFacts]) -> bool:
    one, other = pair.before, pair.after
    if one is None or other is None:
        return True
    return bool(pair.delta_bytes) or any(
        getattr(one, name) != getattr(other, name) for name in _FIGURES
    )


_FIGURES = ("bytes", "compiles", "failed", "calls", "argument_bytes", "output_bytes", "alias_bytes", "temp_bytes", "host_bytes", "errors")  # fmt: skip


def _program(pair: Pair[ProgramFacts], line: _Lines) -> tuple[Cell, ...]:
    one, other = pair.before, pair.after
    shown = other or one
    return (
        shown.name if shown else "",
        _fate(pair),
        size_cell(one.bytes if one else None),
        size_cell(other.bytes if other else None),
        change_cell(pair.delta_bytes),
        _counts(one.compiles if one else None, other.compiles if other else None),
        _counts(one.calls if one else None, other.calls if other else None),
        line(one.line if one else None, other.line if other else None),
    )


def _fate(pair: Pair[ProgramFacts]) -> str:
    """What became of a program, above all whether it still compiles."""
    one, other = pair.before, pair.after
    if other and other.failed and not (one and one.failed):
        return "does not compile"
    if one and one.failed and other and not other.failed:
        return "compiles now"
    return str(pair.change)


def _counts(before: int | None, after: int | None) -> Cell:
    """A count, or how it changed: `3 → 5`."""
    one, other = ("-" if n is None else f"{n:,}" for n in (before, after))
    return NoFigure(one if one == other else f"{one} → {other}")


def _memories(programs: tuple[ProgramDiff, ...], line: _Lines) -> tuple[Section, ...]:
    """The memory of the programs that differ most."""
    found: list[Section] = []
    different = [p for p in programs if p.memory and not p.memory.is_empty]
    for program in different[:_MOST_PROGRAMS]:
        assert program.memory is not None
        found += memory_sections(program.memory, line.before, line.after, program.memory.after)
    if (rest := len(different) - _MOST_PROGRAMS) > 0:
        text = f"The memory of {counted(rest, 'more program')} differs: see the JSON report."
        found.append(Section("More programs", (Note(text),)))
    return tuple(found)


# ---- memory over the run, transfers, failures --------------------------------------------------


def _devices(devices: tuple[DeviceDiff, ...]) -> Section:
    alike: dict[tuple[Figure, ...], list[DeviceDiff]] = {}
    for device in devices:
        figures = (device.peak_bytes, device.in_use_bytes)
        host = (device.host_peak_bytes, device.host_in_use_bytes)
        alike.setdefault((*figures, *host), []).append(device)
    rows: list[tuple[Cell, ...]] = []
    for group in alike.values():
        first = group[0]
        for name, figure in (
            ("HBM at peak", first.peak_bytes),
            ("HBM at end", first.in_use_bytes),
            ("host memory at peak", first.host_peak_bytes),
            ("host memory at end", first.host_in_use_bytes),
        ):
            if figure.differs:
                sizes = (
                    size_cell(figure.before),
                    size_cell(figure.after),
                    change_cell(figure.delta),
                )
                rows.append((_names(group), name, *sizes))
    columns = (
        Column("device"),
        Column("memory"),
        Column("before", Basis.SIMULATED),
        Column("after", Basis.SIMULATED),
        Column("difference", Basis.SIMULATED),
    )
    return Section("Memory over the run", (Table(columns, tuple(rows)),))


def _names(devices: list[DeviceDiff]) -> str:
    if len(devices) == 1:
        return str(devices[0].device)
    return f"{devices[0].device} and {len(devices) - 1} alike"


def _transfers(pairs: tuple[Pair[TransferFacts], ...], line: _Lines) -> Section:
    rows = tuple(
        (
            _of(pair, lambda t: str(t.direction)),
            str(pair.change),
            size_cell(pair.before.bytes if pair.before else None),
            size_cell(pair.after.bytes if pair.after else None),
            change_cell(pair.delta_bytes),
            CountChange(
                (pair.after.count if pair.after else 0) - (pair.before.count if pair.before else 0)
            ),
            line(
                pair.before.line if pair.before else None, pair.after.line if pair.after else None
            ),
        )
        for pair in pairs[:_MOST_ROWS]
    )
    columns = (
        Column("direction"),
        Column("change"),
        Column("before", Basis.SIMULATED),
        Column("after", Basis.SIMULATED),
        Column("difference", Basis.SIMULATED),
        Column("times", Basis.SIMULATED),
        Column("line"),
    )
    return Section("Transfers", (Table(columns, rows, max(0, len(pairs) - _MOST_ROWS)),))


def _failures(pairs: tuple[Pair[FailureFacts], ...], line: _Lines) -> Section:
    rows = tuple(
        (
            str(pair.change),
            _of(pair, _wanted_for),
            size_cell(pair.before.bytes if pair.before else None),
            size_cell(pair.after.bytes if pair.after else None),
            _of(pair, lambda f: "fragmentation" if f.is_fragmentation else "not enough free"),
            _of(pair, lambda f: counted(f.count, "time")),
            line(
                pair.before.line if pair.before else None, pair.after.line if pair.after else None
            ),
        )
        for pair in pairs[:_MOST_ROWS]
    )
    columns = (
        Column("change"),
        Column("for"),
        Column("wanted before", Basis.SIMULATED),
        Column("wanted after", Basis.SIMULATED),
        Column("why"),
        Column("times"),
        Column("line"),
    )
    return Section("Out of memory", (Table(columns, rows, max(0, len(pairs) - _MOST_ROWS)),))


def _wanted_for(failure: FailureFacts) -> str:
    if failure.program is None:
        return "an array"
    what = "temporaries" if failure.is_reservation else "an output"
    return f"{what} of {failure.program}"


_T = TypeVar("_T", TransferFacts, FailureFacts)


def _of(pair: Pair[_T], text: Callable[[_T], str]) -> str:
    """What is said of a row as it is now, or was."""
    shown = pair.after or pair.before
    return text(shown) if shown else ""
