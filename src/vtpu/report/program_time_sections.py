"""Sections about a program's time: how long, what bounds it, where it goes. All of it is modelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vtpu.analysis.source_lines import SourceLine
from vtpu.analysis.time.report import Communication, PathStep, TimeReport, Unmodelled
from vtpu.analysis.time.rows import OperationRow, TimeGroup
from vtpu.clock.resources import Resource
from vtpu.evidence import Basis
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Facts,
    Flops,
    Line,
    NoFigure,
    Note,
    Seconds,
    Section,
    Share,
    Table,
)
from vtpu.units import counted, format_bytes, format_flops, format_seconds

_MOST_ROWS = 15
#: What takes less of the step is a row of the JSON report only.
_LEAST_SHARE = 0.0005

_Lines = Callable[[SourceLine], Line]


def time_sections(report: TimeReport, line: _Lines) -> tuple[Section, ...]:
    """The sections about the time of a program. `line` makes a line as people read it."""
    sections = [
        Section("Time of one execution", tuple(_summary(report))),
        Section("What bounds it", (_bounds(report), Note(_ABOUT_BOUNDS))),
        Section("Operations", (_operations(report, line), Note(_ABOUT_OPERATIONS))),
        Section("Time by phase, layer and kind", tuple(_groups(report))),
    ]
    if report.communications:
        sections.append(Section("Communication", (_communications(report, line),)))
    sections.append(Section("Critical path", (_path(report, line), Note(_ABOUT_PATH))))
    return tuple(sections)


def time_text(report: TimeReport) -> str:
    """The time of one execution with its band."""
    total = report.time.total
    if report.time.is_lower_bound:
        return f"at least {format_seconds(total.low)} (modelled): something in it has no known time"
    band = f"{format_seconds(total.low)} to {format_seconds(total.high)}"
    return f"{format_seconds(total.seconds)} (modelled), expected {band}"


_ABOUT_BOUNDS = (
    "Without a resource: its operations take what they need of the next one, and transfers that the core "
    "then no longer covers are waited for. The schedule stays as it is."
)
_ABOUT_OPERATIONS = (
    "All runs together; loops are multiplied out. Of peak: the time at the data sheet's FLOP/s or HBM "
    "bandwidth, whichever takes longer, over the modelled time."
)
_ABOUT_PATH = (
    "Followed from the end backwards: through a wait to what was waited for, and to what started that. What "
    "the core computed meanwhile is not on it."
)


# ---- the whole ---------------------------------------------------------------------------------


def _summary(report: TimeReport) -> list[Block]:
    pairs: list[tuple[str, Cell]] = [
        ("one execution takes", time_text(report)),
        ("bound by", _bound_text(report)),
        ("MFU", _percent(report.mfu, "model FLOPs; what is recomputed does not count")),
        ("HFU", _percent(report.hfu, f"all {format_flops(report.time.flops)} of the program")),
        ("HBM bandwidth", _percent(report.hbm_utilisation, format_bytes(report.time.hbm_bytes))),
        ("waits for collectives", _part(report.exposed_s, report.seconds)),
        ("calibration", report.time.calibration),
    ]
    if report.idle_s > _LEAST_SHARE * report.seconds:
        pairs.append(("core idle", _part(report.idle_s, report.seconds)))
    blocks: list[Block] = [Facts(tuple(pairs))]
    if report.unmodelled.rows:
        blocks.append(Note(_without_model(report.unmodelled), is_warning=True))
    if report.uncounted_loops:
        blocks.append(Note(_uncounted(report.uncounted_loops), is_warning=True))
    return blocks


def _uncounted(loops: tuple[str, ...]) -> str:
    return (
        f"How often {counted(len(loops), 'loop')} runs cannot be told before it runs: one run is in this "
        f"time ({', '.join(loops[:3])}{', …' if len(loops) > 3 else ''})."
    )


def _bound_text(report: TimeReport) -> str:
    bound = report.bound
    if bound is None:
        return "unknown"
    return f"{bound}, {100 * report.bounds[bound] / report.seconds:.0f} % of the step"


def _percent(share: float | None, of: str) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} % ({of})"


def _part(seconds: float, whole: float) -> str:
    share = f" ({100 * seconds / whole:.1f} % of the step)" if whole else ""
    return f"{format_seconds(seconds)}{share}"


def _without_model(missing: Unmodelled) -> str:
    """How much of the program the total does not have."""
    flops = (
        "FLOPs that nobody knows"
        if missing.has_unknown_flops
        else f"{format_flops(missing.flops)}{_of(missing.flops_share)}"
    )
    names = ", ".join(dict.fromkeys(r.instruction.name for r in missing.rows[:3]))
    more = ", …" if len(missing.rows) > 3 else ""
    return (
        f"{counted(len(missing.rows), 'operation')} without a model: {flops} and "
        f"{format_bytes(missing.hbm_bytes)} of HBM{_of(missing.hbm_share)} are not in this time "
        f"({names}{more})."
    )


def _of(share: float | None) -> str:
    return "" if share is None else f" ({100 * share:.1f} % of the program's)"


# ---- tables ------------------------------------------------------------------------------------


def _bounds(report: TimeReport) -> Table:
    columns = (
        Column("resource"),
        Column("bounds", Basis.MODELLED),
        Column("of step", Basis.MODELLED),
        Column("step without it", Basis.MODELLED),
        Column("faster by", Basis.MODELLED),
        Column("then bound by"),
    )
    what_ifs = {w.resource: w for w in report.what_ifs}
    rows: list[tuple[Cell, ...]] = []
    for resource, seconds in report.bounds.items():
        without = what_ifs.get(resource) if resource else None
        if seconds < _LEAST_SHARE * report.seconds:
            continue
        rows.append(
            (
                _resource(resource),
                Seconds(seconds),
                Share(seconds, report.seconds),
                Seconds(without.seconds) if without else NoFigure(),
                Share(report.seconds - without.seconds, report.seconds) if without else NoFigure(),
                _resource(without.next_bound) if without else "",
            )
        )
    return Table(columns, tuple(rows))


def _resource(resource: Resource | None) -> str:
    return str(resource) if resource else "loops, unknown"


def _shown(rows: Sequence[OperationRow], whole: float) -> list[OperationRow]:
    return [r for r in rows[:_MOST_ROWS] if r.seconds >= _LEAST_SHARE * whole]


def _operations(report: TimeReport, line: _Lines) -> Table:
    columns = (
        Column("time", Basis.MODELLED),
        Column("of step", Basis.MODELLED),
        Column("operation", Basis.COMPILER),
        Column("kind"),
        Column("runs", Basis.COMPILER, is_minor=True),
        Column("FLOPs", Basis.COMPILER),
        Column("HBM", Basis.COMPILER),
        Column("FLOP/B", Basis.COMPILER, is_minor=True),
        Column("bound by", Basis.MODELLED),
        Column("of peak", Basis.MODELLED),
        Column("then", Basis.MODELLED, is_minor=True),
        Column("layer", is_minor=True),
        Column("line"),
    )
    shown = _shown(report.rows, report.seconds)
    rows = tuple(_operation(row, report.seconds, line) for row in shown)
    return Table(columns, rows, len(report.rows) - len(rows))


def _operation(row: OperationRow, whole: float, line: _Lines) -> tuple[Cell, ...]:
    following, _ = row.next_bound
    return (
        None if row.time.time is None else Seconds(row.seconds),
        None if row.time.time is None else Share(row.seconds, whole),
        row.instruction.name,
        row.kind if not row.waited_s else f"{row.kind} (waited for)",
        Count(round(row.time.runs)),
        None if row.flops is None else Flops(row.flops),
        None if row.hbm_bytes is None else Bytes(row.hbm_bytes),
        NoFigure() if row.intensity is None else f"{row.intensity:,.1f}",
        _resource(row.bound) if row.bound else "",
        NoFigure() if row.of_peak is None else Share(row.of_peak, 1),
        str(following) if following else "",
        row.layer,
        line(row.line) if row.line.line else "",
    )


def _groups(report: TimeReport) -> list[Table]:
    named = (("phase", report.phases), ("layer", report.layers), ("kind", report.kinds))
    return [_group_table(name, groups, report.seconds) for name, groups in named]


def _group_table(name: str, groups: tuple[TimeGroup, ...], whole: float) -> Table:
    columns = (
        Column(name),
        Column("time", Basis.MODELLED),
        Column("of step", Basis.MODELLED),
        Column("of it waits", Basis.MODELLED),
        Column("FLOPs", Basis.COMPILER),
        Column("HBM", Basis.COMPILER),
        Column("operations", Basis.COMPILER),
    )
    shown = [g for g in groups[:_MOST_ROWS] if g.seconds >= _LEAST_SHARE * whole]
    rows = tuple(
        (
            g.key,
            Seconds(g.seconds),
            Share(g.seconds, whole),
            Seconds(g.waited_s),
            Flops(g.flops),
            Bytes(g.hbm_bytes),
            Count(g.count),
        )
        for g in shown
    )
    return Table(columns, rows, len(groups) - len(shown))


def _communications(report: TimeReport, line: _Lines) -> Table:
    columns = (
        Column("exposed", Basis.MODELLED),
        Column("of step", Basis.MODELLED),
        Column("on the links", Basis.MODELLED),
        Column("collective", Basis.COMPILER),
        Column("runs", Basis.COMPILER),
        Column("received", Basis.COMPILER),
        Column("line"),
    )
    shown = report.communications[:_MOST_ROWS]
    rows = tuple(_communication(c, report.seconds, line) for c in shown)
    return Table(columns, rows, len(report.communications) - len(shown))


def _communication(one: Communication, whole: float, line: _Lines) -> tuple[Cell, ...]:
    return (
        Seconds(one.exposed_s),
        Share(one.exposed_s, whole),
        Seconds(one.alone_s),
        one.kind,
        Count(round(one.runs)),
        Bytes(one.link_bytes),
        line(one.line) if one.line.line else "",
    )


def _path(report: TimeReport, line: _Lines) -> Table:
    columns = (
        Column("on the path", Basis.MODELLED),
        Column("of step", Basis.MODELLED),
        Column("operation", Basis.COMPILER),
        Column("kind"),
        Column("where"),
        Column("line"),
    )
    shown = [s for s in report.path[:_MOST_ROWS] if s.seconds >= _LEAST_SHARE * report.seconds]
    rows = tuple(_path_step(s, report.seconds, line) for s in shown)
    return Table(columns, rows, len(report.path) - len(shown))


def _path_step(step: PathStep, whole: float, line: _Lines) -> tuple[Cell, ...]:
    row = step.row
    return (
        Seconds(step.seconds),
        Share(step.seconds, whole),
        row.instruction.name,
        row.kind,
        "beside the core" if step.is_beside else "core",
        line(row.line) if row.line.line else "",
    )
