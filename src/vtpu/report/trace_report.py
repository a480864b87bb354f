"""A profile's tables as a document: what hardware, steps, cores, operations, layers, communication."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from vtpu.analysis.measured.against import Comparison, Difference, ProgramComparison
from vtpu.analysis.measured.hardware import Hardware, HardwareKind
from vtpu.analysis.measured.operations import CoreTimes, MeasuredOperation, ProgramRuns
from vtpu.analysis.measured.summary import Communication, MeasuredProfile, Part, StepTimes
from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.report.document import (
    Cell,
    Column,
    Count,
    Document,
    Facts,
    NoFigure,
    Note,
    Rate,
    Seconds,
    SecondsChange,
    Section,
    Share,
    Table,
)
from vtpu.report.source_text import Sources
from vtpu.units import counted, format_rate, format_seconds

_MOST_ROWS = 20
_MOST_PARTS = 12
_MOST_CORES = 8
_PS = 1e12


def trace_document(
    profile: MeasuredProfile,
    names: Sequence[str],
    comparison: Comparison | None = None,
    folder: str = "",
) -> Document:
    """The report of a profile.

    Args:
        profile: its tables.
        names: its files.
        comparison: what it is beside a recording.
        folder: where the program's files are named from.
    """
    maker = _Maker(profile, Sources(folder))
    sections = (
        maker.facts(names),
        maker.cores(),
        maker.programs(),
        maker.operations(),
        maker.parts("Layers", "layer", profile.layers, lambda name: name or "(in no layer)"),
        maker.parts("Lines", "line", profile.lines, lambda name: maker.line(name) or "(not known)"),
        maker.communication(),
    )
    found = [section for section in sections if section]
    if comparison:
        found += comparison_sections(comparison, maker.basis)
    return Document("vtpu trace", tuple(found))


class _Maker:
    """Makes the sections of one profile."""

    def __init__(self, profile: MeasuredProfile, sources: Sources) -> None:
        self._profile = profile
        self._sources = sources
        self.basis = Basis.MODELLED if profile.hardware.is_modelled else Basis.MEASURED
        self._cores = max(1, sum(core.window_s > 0 for core in profile.cores))
        self._steps = profile.steps.count if profile.steps else 1

    @property
    def _each(self) -> str:
        """What a table's times are of."""
        if self._profile.hardware.kind is HardwareKind.HOST:
            return "time"
        return "per step" if self._profile.steps else "per core"

    def _time(self, seconds: float) -> float:
        """A sum over cores and steps as the time of one step on one core."""
        return seconds / self._cores / self._steps

    def line(self, place: str) -> Cell:
        """A place as profiles write it, `train.py:12`, with the text that stands there if it is here."""
        file, _, number = place.rpartition(":")
        if not number.isdigit():
            return place
        return self._sources.line(SourceLine(file, int(number), ""))

    # ---- the whole ----

    def facts(self, names: Sequence[str]) -> Section:
        profile = self._profile
        pairs: list[tuple[str, Cell]] = [("file", ", ".join(names))]
        pairs += hardware_facts(profile.hardware)
        pairs += step_facts(profile.steps)
        if profile.cores:
            pairs.append(("core busy", self._busy_text()))
        if profile.operations:
            pairs.append(("operations", self._operations_text()))
        notes = [Note(text) for text in profile.notes]
        problems = [Note(text, is_warning=True) for text in profile.problems]
        return Section("Profile", (Facts(tuple(pairs)), *notes, *problems))

    def _busy_text(self) -> str:
        """How much of the time cores were busy, on average."""
        cores = self._profile.cores
        window = statistics.mean(core.window_s for core in cores)
        busy = statistics.mean(core.busy_s for core in cores)
        share = f"{100 * busy / window:.1f} %" if window else "unknown"
        return (
            f"{share} of {format_seconds(window)}, idle {format_seconds(window - busy)} "
            f"(mean of {counted(len(cores), 'core')})"
        )

    def _operations_text(self) -> str:
        profile = self._profile
        total = format_seconds(self._time(profile.operations_s))
        rate = self._whole_rate()
        of_what = "in all" if profile.hardware.kind is HardwareKind.HOST else self._each
        return f"{total} {of_what}" + (f", {rate}" if rate else "")

    def _whole_rate(self) -> str:
        """The FLOP rate over the operations' time, and its share of the peak."""
        flops = [part.flops for part in self._profile.layers if part.flops]
        seconds = self._profile.operations_s
        if not flops or not seconds:
            return ""
        rate = sum(flops) / seconds
        peak = self._profile.hardware.peak_flops_per_s
        share = f", {100 * rate / peak:.1f} % of the peak" if peak else ""
        return f"{format_rate(rate, 'FLOP')} on a core{share}"

    def cores(self) -> Section | None:
        cores = self._profile.cores
        if len(cores) < 2:
            return None
        columns = (
            Column("core"),
            Column("window", self.basis),
            Column("busy", self.basis),
            Column("of window", self.basis),
            Column("idle", self.basis),
            Column("in operations", self.basis),
        )
        rows = tuple(_core_row(core) for core in cores[:_MOST_CORES])
        return Section("Cores", (Table(columns, rows, len(cores) - len(rows)),))

    def programs(self) -> Section | None:
        programs = self._profile.programs
        if not programs:
            return None
        columns = (
            Column("program"),
            Column("executions", self.basis),
            Column("median", self.basis),
            Column("least", self.basis),
            Column("most", self.basis),
            Column("begin to begin", self.basis),
        )
        rows = tuple(_program_row(run) for run in programs[:_MOST_PARTS])
        return Section("Programs", (Table(columns, rows, len(programs) - len(rows)),))

    # ---- operations ----

    def operations(self) -> Section | None:
        operations = self._profile.operations
        if not operations:
            return None
        columns = (
            Column("operation"),
            Column("category"),
            Column(self._each, self.basis),
            Column("share", self.basis),
            Column("count", self.basis),
            Column("FLOP rate", self.basis),
            Column("bandwidth", self.basis, is_minor=True),
            Column("layer", wraps=True),
            Column("line"),
        )
        rows = tuple(self._operation_row(op) for op in operations[:_MOST_ROWS])
        return Section(
            "Operations", (Table(columns, rows, len(operations) - len(rows)), *self._remarks())
        )

    def _operation_row(self, op: MeasuredOperation) -> tuple[Cell, ...]:
        return (
            op.name,
            op.category or NoFigure(""),
            Seconds(self._time(op.self_s)),
            self._share(op.self_s),
            Count(op.count),
            Rate(op.flops_per_s, "FLOP") if op.flops_per_s else NoFigure(),
            Rate(op.bytes_per_s, "B") if op.bytes_per_s else NoFigure(),
            op.layer,
            self.line(op.line),
        )

    def _share(self, seconds: float) -> Share:
        return Share(round(seconds * _PS), round(self._profile.operations_s * _PS))

    def _remarks(self) -> tuple[Note, ...]:
        if self._profile.hardware.kind is not HardwareKind.TPU:
            return ()
        return (
            Note(
                "An operation's time is its own: that of operations in a loop counts there alone. Rates "
                "are the profile's FLOPs and bytes over that time."
            ),
        )

    def parts(
        self, heading: str, column: str, parts: Sequence[Part], shown: Callable[[str], Cell]
    ) -> Section | None:
        if not parts or [part.name for part in parts] == [""]:
            return None
        columns = (
            Column(column, wraps=True),
            Column(self._each, self.basis),
            Column("share", self.basis),
            Column("FLOP rate", self.basis),
            Column("operations", self.basis),
        )
        rows = tuple(
            (
                shown(part.name),
                Seconds(self._time(part.self_s)),
                self._share(part.self_s),
                Rate(part.flops / part.self_s, "FLOP")
                if part.flops and part.self_s
                else NoFigure(),
                Count(part.operations),
            )
            for part in parts[:_MOST_PARTS]
        )
        return Section(heading, (Table(columns, rows, len(parts) - len(rows)),))

    def communication(self) -> Section | None:
        found = self._profile.communication
        if not found:
            return None
        columns = (
            Column("communication"),
            Column("operations", self.basis),
            Column("count", self.basis),
            Column(f"exposed {self._each}", self.basis),
            Column("share", self.basis),
            Column("beside the core", self.basis),
        )
        rows = tuple(self._communication_row(c) for c in found)
        remark = Note(
            "Exposed is what cores spent in communication or waiting for it; beside the core is how long "
            "it was under way, overlapped or not."
        )
        return Section("Communication", (Table(columns, rows), remark))

    def _communication_row(self, found: Communication) -> tuple[Cell, ...]:
        return (
            found.kind,
            Count(found.operations),
            Count(found.count),
            Seconds(self._time(found.exposed_s)),
            self._share(found.exposed_s),
            Seconds(self._time(found.async_s)) if found.async_s else NoFigure(),
        )


def hardware_facts(hardware: Hardware) -> list[tuple[str, Cell]]:
    """What the profile was recorded on."""
    if hardware.kind is HardwareKind.HOST:
        return [("hardware", "no device, the host alone")]
    name = hardware.name or f"a {hardware.kind} of unknown kind"
    known = f" ({hardware.generation})" if hardware.generation else ""
    cores = counted(hardware.cores, "core")
    two = ", two to a chip" if hardware.is_megacore else ""
    pairs: list[tuple[str, Cell]] = [("hardware", f"{name}{known}, {cores}{two}")]
    if hardware.hosts:
        pairs.append(("hosts", ", ".join(hardware.hosts)))
    peaks = [
        format_rate(value, unit)
        for value, unit in ((hardware.peak_flops_per_s, "FLOP"), (hardware.hbm_bytes_per_s, "B"))
        if value
    ]
    if peaks:
        pairs.append(("peak of a core", ", ".join(peaks)))
    return pairs


def step_facts(steps: StepTimes | None) -> list[tuple[str, Cell]]:
    """How long steps took and how much they differ."""
    if steps is None:
        return [("step time", None)]
    spread = (
        f"{format_seconds(steps.least_s)} to {format_seconds(steps.most_s)}, "
        f"deviation {format_seconds(steps.deviation_s)}"
    )
    text = f"{format_seconds(steps.median_s)} (median of {steps.count}; {spread})"
    pairs: list[tuple[str, Cell]] = [("step time", text), ("steps are", steps.found)]
    if steps.period_median_s is not None:
        pairs.append(("begin to begin", f"{format_seconds(steps.period_median_s)} (median)"))
    return pairs


def _core_row(core: CoreTimes) -> tuple[Cell, ...]:
    return (
        core.name,
        Seconds(core.window_s),
        Seconds(core.busy_s),
        Share(round(core.busy_s * _PS), round(core.window_s * _PS)),
        Seconds(max(0.0, core.window_s - core.busy_s)),
        Seconds(core.operations_s),
    )


def _program_row(run: ProgramRuns) -> tuple[Cell, ...]:
    return (
        run.name,
        Count(run.executions),
        Seconds(statistics.median(run.seconds)),
        Seconds(min(run.seconds)),
        Seconds(max(run.seconds)),
        Seconds(statistics.median(run.periods)) if run.periods else NoFigure(),
    )


# ---- against a recording -----------------------------------------------------------------------


def comparison_sections(comparison: Comparison, basis: Basis) -> list[Section]:
    """Where prediction and profile differ most, program by program. `basis`: of the profile's times."""
    sections = [_comparison_section(program, basis) for program in comparison.programs]
    notes = [Note(text) for text in comparison.notes]
    if comparison.only_measured:
        notes.append(Note(f"Only in the profile: {', '.join(comparison.only_measured)}."))
    if comparison.only_recorded:
        notes.append(Note(f"Only in the recording: {', '.join(comparison.only_recorded)}."))
    if notes:
        sections.append(Section("Prediction and measurement", tuple(notes)))
    return sections


def _comparison_section(program: ProgramComparison, basis: Basis) -> Section:
    blocks = [Facts(_comparison_facts(program)), _sums_table(program, basis)]
    if program.predicted_s is not None:
        operations = [row for row in program.operations if row.difference_s]
        blocks.append(_differences("operation", operations, _MOST_ROWS, basis))
        if [layer.name for layer in program.layers] != [""]:
            blocks.append(_differences("layer", program.layers, _MOST_PARTS, basis))
    return Section(f"{program.program}: predicted and in the profile", tuple(blocks))


def _comparison_facts(program: ProgramComparison) -> tuple[tuple[str, Cell], ...]:
    predicted = None if program.predicted_s is None else Seconds(program.predicted_s)
    pairs: list[tuple[str, Cell]] = [
        ("predicted", predicted),
        ("in the profile", Seconds(program.measured_s)),
    ]
    if program.predicted_s:
        share = 100 * (program.predicted_s / program.measured_s - 1) if program.measured_s else 0.0
        pairs.append(("error", f"{share:+.1f} % of what the profile has"))
    pairs.append(("matched", f"program {program.number}, {100 * program.common:.0f} % by name"))
    if program.without_model:
        pairs.append(("without a model", counted(program.without_model, "operation")))
    return tuple(pairs)


def _sums_table(program: ProgramComparison, basis: Basis) -> Table:
    """What adds up to one execution on one core."""
    sums = program.sums
    rows: tuple[tuple[Cell, ...], ...] = (
        ("operations of both", Seconds(sums.both_predicted_s), Seconds(sums.both_measured_s)),
        ("only predicted", Seconds(sums.only_predicted_s), NoFigure()),
        ("only in the profile", NoFigure(), Seconds(sums.only_measured_s)),
        ("beside operations", NoFigure(), Seconds(sums.between_s)),
        (
            "one execution on one core",
            Seconds(sums.both_predicted_s + sums.only_predicted_s),
            Seconds(program.measured_s),
        ),
    )
    return Table(
        (
            Column("part"),
            Column("predicted", Basis.MODELLED),
            Column("in the profile", basis),
        ),
        rows,
    )


def _differences(heading: str, rows: Sequence[Difference], most: int, basis: Basis) -> Table:
    columns = (
        Column(heading, wraps=True),
        Column("predicted", Basis.MODELLED),
        Column("in the profile", basis),
        Column("difference"),
        Column("bound by", Basis.MODELLED, is_minor=True),
        Column("category", is_minor=True),
    )
    shown = tuple(
        (
            row.name or "(in no layer)",
            NoFigure() if row.predicted_s is None else Seconds(row.predicted_s),
            NoFigure() if row.measured_s is None else Seconds(row.measured_s),
            SecondsChange(row.difference_s),
            row.bound,
            row.category,
        )
        for row in rows[:most]
    )
    return Table(columns, shown, len(rows) - len(shown))
