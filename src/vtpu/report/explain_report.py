"""The report of `vtpu explain`: messages, programs, dumps, profiles and recordings as documents."""

from __future__ import annotations

from vtpu.analysis.explanation.dumps import DumpedProgram, DumpExplained
from vtpu.analysis.explanation.explanations import ProfileExplained, ProgramExplained, TextExplained
from vtpu.analysis.explanation.printed_dumps import PrintedExplained
from vtpu.analysis.explanation.profile_lines import ProfileGroup
from vtpu.analysis.explanation.recordings import RecordedProgram, RecordingExplained
from vtpu.analysis.program.module_values import ModuleValues, Value
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
    Section,
    Table,
)
from vtpu.report.messages_report import message_sections, unknown_lines
from vtpu.report.program_report import program_sections
from vtpu.report.source_text import Sources
from vtpu.units import counted

_MOST_ROWS = 20
_MOST_FAILURES = 3
_OTHER_BACKEND = (
    "Of a module for a CPU or GPU, what is called HBM below is the memory of that device: the first "
    "memory space."
)

Explained = (
    TextExplained
    | ProgramExplained
    | PrintedExplained
    | DumpExplained
    | ProfileExplained
    | RecordingExplained
)


def explain_document(explained: Explained) -> Document:
    """What was found in one artifact."""
    match explained:
        case TextExplained():
            sections = message_sections(explained)
        case ProgramExplained():
            sections = _program(explained)
        case PrintedExplained():
            sections = _printed(explained)
        case DumpExplained():
            sections = _dump(explained)
        case ProfileExplained():
            sections = _profile(explained)
        case RecordingExplained():
            sections = _recording(explained)
    return Document(f"vtpu explain {explained.name}", sections)


def _problems(problems: tuple[str, ...]) -> tuple[Section, ...]:
    if not problems:
        return ()
    notes = tuple(Note(text, is_warning=True) for text in problems[:_MOST_ROWS])
    more = len(problems) - _MOST_ROWS
    rest = (Note(f"{counted(more, 'more problem')} in the JSON report"),) if more > 0 else ()
    return (Section("What could not be read", notes + rest),)


# ---- a program ---------------------------------------------------------------------------------


def _program(explained: ProgramExplained) -> tuple[Section, ...]:
    folder = explained.report.origin.folder
    values = _values(explained.values, folder) if explained.values else ()
    return (*program_sections(explained.report), *values)


def _values(values: ModuleValues, folder: str) -> tuple[Section, ...]:
    padded = "with the padding of their tiles" if values.has_tiles else "without padding: no tiles"
    facts = Facts(
        (
            ("instructions", Count(values.instructions)),
            ("arguments", Bytes(values.argument_bytes)),
            ("results", Bytes(values.result_bytes)),
            ("donated", Bytes(values.donated_bytes)),
        )
    )
    note = Note(
        f"Sizes follow from the shapes, {padded}. No allocation is known: which values share memory, "
        "and when, only a buffer assignment tells (compile with --xla_dump_to, or vtpu check)."
    )
    tables = (
        _value_table("argument", values.arguments, folder),
        _value_table("result", values.results, folder),
        _value_table("value", values.largest, folder),
    )
    return (Section("What the module alone tells", (facts, note, *tables)),)


def _value_table(what: str, values: tuple[Value, ...], folder: str) -> Table:
    line = Sources(folder).line
    rows = tuple(
        (
            Bytes(v.bytes),
            Bytes(v.padding_bytes),
            v.name,
            str(v.shape),
            str(v.role) if v.role else v.layer,
            line(v.line) if v.line.line else "",
        )
        for v in values[:_MOST_ROWS]
    )
    columns = (
        Column("bytes", Basis.COMPILER),
        Column("padding", Basis.COMPILER),
        Column(what),
        Column("shape"),
        Column("role" if what == "argument" else "layer", is_minor=True),
        Column("line"),
    )
    return Table(columns, rows, max(0, len(values) - _MOST_ROWS))


# ---- a dump ------------------------------------------------------------------------------------


def _dump(explained: DumpExplained) -> tuple[Section, ...]:
    table = _dump_table(explained.programs)
    notes: list[Block] = [table]
    if len(explained.programs) > 1 and explained.chosen:
        notes.append(Note(f"In detail: {explained.chosen.name}; another one with --module NAME."))
    if any(p.backend in ("cpu", "gpu") for p in explained.programs):
        notes.append(Note(_OTHER_BACKEND))
    sections = [Section("Modules of the dump", tuple(notes)), *_problems(explained.problems)]
    if explained.chosen:
        sections += _program(explained.chosen)
    if explained.printed:
        sections += _printed(explained.printed)
    if not explained.chosen and not explained.printed:
        text = "No module of this dump can be read: dump with --xla_dump_hlo_as_proto."
        sections.append(Section("Nothing in detail", (Note(text, is_warning=True),)))
    return tuple(sections)


def _dump_table(programs: tuple[DumpedProgram, ...]) -> Table:
    rows = tuple(
        (
            p.name,
            p.backend or NoFigure("not known"),
            NoFigure("unknown") if p.need_bytes is None else Bytes(p.need_bytes),
            "out of memory" if p.ran_out_of_memory else "",
            p.source or p.problem or "",
        )
        for p in programs[:_MOST_ROWS]
    )
    columns = (
        Column("module"),
        Column("for"),
        Column("allocations", Basis.COMPILER),
        Column("end"),
        Column("from", is_minor=True),
    )
    return Table(columns, rows, max(0, len(programs) - _MOST_ROWS))


# ---- a printed report --------------------------------------------------------------------------


def _printed(explained: PrintedExplained) -> tuple[Section, ...]:
    rows = tuple(
        (Bytes(p.bytes), p.what, p.memory, p.kind, Count(p.values))
        for p in explained.pieces[:_MOST_ROWS]
    )
    columns = (
        Column("bytes", Basis.COMPILER),
        Column("largest value"),
        Column("memory"),
        Column("kind"),
        Column("values", Basis.COMPILER),
    )
    blocks: list[Block] = []
    if explained.totals:
        blocks.append(Facts(tuple((name, Bytes(size)) for name, size in explained.totals)))
    if rows:
        blocks.append(Table(columns, rows, max(0, len(explained.pieces) - _MOST_ROWS)))
    blocks.append(Note(explained.about))
    sections = [Section(explained.title, tuple(blocks)), *_problems(explained.problems)]
    if explained.unknown:
        sections.append(unknown_lines(explained.unknown))
    return tuple(sections)


# ---- a memory profile --------------------------------------------------------------------------


def _profile(explained: ProfileExplained) -> tuple[Section, ...]:
    profile = explained.profile
    pairs: list[tuple[str, Cell]] = [("in all", Bytes(profile.total_bytes))]
    pairs += [(kind or "of no kind", Bytes(size)) for kind, size in profile.by_kind]
    pairs += [(device or "no device", Bytes(size)) for device, size in profile.by_device[:8]]
    rows = tuple(_profile_row(g) for g in profile.groups[:_MOST_ROWS])
    columns = (
        Column("bytes", Basis.JAX),
        Column("count", Basis.JAX),
        Column("kind"),
        Column("device"),
        Column("line"),
    )
    table = Table(columns, rows, max(0, len(profile.groups) - _MOST_ROWS))
    note = Note(
        "Bytes at the moment when the profile was saved, as the backend counts them: temporaries of "
        "running programs are not in it."
    )
    section = Section("Memory by line", (Facts(tuple(pairs)), table, note))
    return (section, *_problems(profile.problems))


def _profile_row(group: ProfileGroup) -> tuple[Cell, ...]:
    where = Sources("").line(group.line) if group.line.line else str(group.line)
    kind, device = group.kind or NoFigure("not said"), group.device or NoFigure("none")
    return Bytes(group.bytes), Count(group.count), kind, device, where


# ---- a recording -------------------------------------------------------------------------------


def _recording(explained: RecordingExplained) -> tuple[Section, ...]:
    if not explained.programs:
        text = "No program was compiled in this run, or in the part of it that can be read."
        empty = Section("Programs by need", (Note(text),))
        return (empty, *_problems(explained.problems))
    sections = [_recording_table(explained), *_problems(explained.problems)]
    for failure in explained.failures[:_MOST_FAILURES]:
        sections += _program(failure)
    for error in explained.errors[:_MOST_FAILURES]:
        sections += message_sections(error)
    if explained.chosen and not explained.failures and not explained.errors:
        sections += _program(explained.chosen)
    return tuple(sections)


def _recording_table(explained: RecordingExplained) -> Section:
    line = Sources(explained.folder).line
    rows = tuple(
        (
            p.name,
            NoFigure("unknown") if p.need_bytes is None else Bytes(p.need_bytes),
            _end(p),
            Count(p.times),
            line(p.line),
        )
        for p in explained.programs[:_MOST_ROWS]
    )
    columns = (
        Column("program"),
        Column("needs", Basis.COMPILER),
        Column("end"),
        Column("compiled", Basis.SIMULATED),
        Column("line"),
    )
    left_out = max(0, len(explained.programs) - _MOST_ROWS)
    chosen = (explained.chosen,) if explained.chosen else ()
    shown = (*explained.failures, *explained.errors, *chosen)
    notes = [Note(f"In detail: {shown[0].name}; another one with --module NAME.")] if shown else []
    return Section("Programs by need", (Table(columns, rows, left_out), *notes))


def _end(program: RecordedProgram) -> Cell:
    return "did not compile" if program.error else ""
