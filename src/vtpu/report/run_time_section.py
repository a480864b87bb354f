"""The time of a run on the slice, as a section of its report."""

from __future__ import annotations

from collections.abc import Callable

from vtpu.analysis.run.step_time import Steps, Traffic
from vtpu.analysis.run.time import StepSummary, TimeSummary
from vtpu.analysis.run.utilisation import Utilisation
from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Facts,
    Line,
    NoFigure,
    Note,
    Seconds,
    Section,
    Share,
    Table,
)
from vtpu.units import counted, format_count, format_seconds

_NS = 1e9
_MOST_NAMES = 5
_LEAST_SHARE = 0.0005  # of a step: less would read as 0.0 %


def time_section(time: TimeSummary, line: Callable[[SourceLine], Line]) -> Section:
    """How long a step takes, where it goes, and what is not known about it."""
    step = time.step
    blocks: list[Block] = []
    if step:
        blocks += [_step_table(step, line), _parts_table(step.steps)]
        if step.utilisation:
            blocks.append(_utilisation(step.utilisation))
        blocks.append(_bound(step))
    elif time.why_no_step:
        blocks.append(Note(f"No step is known: {time.why_no_step}."))
    blocks += [Note(text, is_warning=True) for text in _unknown(time)]
    blocks.append(Note(_about(time)))
    return Section("Time", tuple(blocks))


def _step_table(step: StepSummary, line: Callable[[SourceLine], Line]) -> Table:
    steps = step.steps
    low, high = (NoFigure(), NoFigure()) if step.is_lower_bound else _band(step)
    row: list[Cell] = [
        step.program,
        Seconds(steps.median_s),
        low,
        high,
        Seconds(steps.fast_s),
        Seconds(steps.slow_s),
        Count(steps.count),
    ]
    columns = [
        Column("a step of"),
        Column("at least" if step.is_lower_bound else "takes", Basis.MODELLED),
        Column("low", Basis.MODELLED),
        Column("high", Basis.MODELLED),
        Column("fast", Basis.MODELLED, is_minor=True),
        Column("slow", Basis.MODELLED, is_minor=True),
        Column("steps", Basis.SIMULATED),
    ]
    for heading, rate in (("examples/s", step.examples_per_s), ("tokens/s", step.tokens_per_s)):
        if rate is not None:
            row.append(Count(round(rate)))
            columns.append(Column(heading, Basis.MODELLED))
    return Table((*columns, Column("line")), ((*row, line(step.line)),))


def _band(step: StepSummary) -> tuple[Cell, Cell]:
    return Seconds(step.low_s), Seconds(step.high_s)


def _parts_table(steps: Steps) -> Table:
    """Where a step goes: of the device, then of the thread that dispatches, then of the links."""
    whole = round(steps.mean_s * _NS)
    parts = [("device: busy", steps.busy_s)]
    parts += [(f"device: idle, {_IDLE[name]}", getattr(steps.idle, name)) for name in _IDLE]
    parts += [
        ("host: works", steps.host_works_s),
        ("host: blocked by something else than devices", steps.host_blocked_s),
        ("host: waits for devices and transfers", steps.host_waits_s),
    ]
    rows: list[tuple[Cell, ...]] = [
        (name, Seconds(seconds), Share(round(seconds * _NS), whole), NoFigure(""))
        for name, seconds in parts
        if seconds > _LEAST_SHARE * steps.mean_s
    ]
    for name, traffic in (("to", steps.to_device), ("from", steps.from_device)):
        if round(traffic.bytes):
            rows.append((f"link: {name} the devices", *_link(traffic, whole)))
    columns = (
        Column("in a step"),
        Column("time", Basis.MODELLED),
        Column("share", Basis.MODELLED),
        Column("bytes", Basis.SIMULATED),
    )
    return Table(columns, tuple(rows))


def _utilisation(used: Utilisation) -> Facts:
    """The chip in a step."""
    facts: list[tuple[str, Cell]] = [
        ("MFU", f"{used.mfu:.1%} (modelled; the model's FLOPs: what is recomputed does not count)"),
        ("matrix units", f"{used.mxu:.1%} of the data sheet's FLOP/s (modelled)"),
        ("HBM", f"{used.hbm:.1%} of the data sheet's bandwidth (modelled)"),
    ]
    for name, seconds in (("other chips", used.exposed_s), ("host memory", used.host_link_s)):
        if seconds:
            facts.append((f"the core waits for {name}", f"{format_seconds(seconds)} (modelled)"))
    return Facts(tuple(facts))


_IDLE = {
    "host_works_s": "the host works",
    "host_blocked_s": "the host is blocked",
    "host_waits_s": "the host waits for results",
    "input_transfer_s": "the input is on its way",
    "other_devices_s": "other devices are not free",
}


def _link(traffic: Traffic, whole: int) -> tuple[Cell, ...]:
    size = Bytes(round(traffic.bytes))
    if traffic.seconds is None:
        return None, None, size
    return Seconds(traffic.seconds), Share(round(traffic.seconds * _NS), whole), size


def _bound(step: StepSummary) -> Note:
    text = f"A step is bound by {step.steps.bound_by}."
    if step.is_input_bound:
        text += " The input does not keep up with the device."
    return Note(text, is_warning=step.is_input_bound)


def _unknown(time: TimeSummary) -> list[str]:
    """What has no time in the figures."""
    texts: list[str] = []
    if time.untimed_executions:
        names = ", ".join(time.untimed_programs[:_MOST_NAMES])
        texts.append(
            f"{counted(time.untimed_executions, 'execution')} of {format_count(time.executions)} have "
            f"no known time and count as none ({names}): times are lower bounds."
        )
    if time.partly_timed_programs:
        names = ", ".join(time.partly_timed_programs[:_MOST_NAMES])
        texts.append(
            f"Of {names} something has no time: operations without a model, or a loop of which nothing "
            "tells how often it runs, which counts once. Times are lower bounds; `vtpu check` of the "
            "function says what it is."
        )
    if time.untimed_bytes:
        texts.append(
            "No source gives the rate of these chips' links to their host: transfers count as no time."
        )
    if time.untimed_copies:
        texts.append(
            f"{_copies(time.untimed_copies)} from device to device count as no time: there is no model."
        )
    if time.asked_ahead:
        texts.append(
            f"{_copies(time.asked_ahead)} to the host began ahead (copy_to_host_async); whether "
            "the program waited for them later is not seen."
        )
    if time.is_paced and time.host_speed != 1:
        texts.append(
            "The program waited for the slice (--pace), on a host like this machine: what another host "
            "would change cannot be told from this recording."
        )
    return texts


def _copies(count: int) -> str:
    return f"{format_count(count)} {'copy' if count == 1 else 'copies'}"


def _about(time: TimeSummary) -> str:
    host = "as fast as this machine"
    if time.host_speed is None:
        host = "so fast that it takes no time (--host-speed inf)"
    elif time.host_speed != 1:
        host = f"{time.host_speed:g} times as fast as this machine (--host-speed)"
    compiling = (
        f"Compiling took {format_seconds(time.compile_s)} here (measured) and is in no step."
    )
    whole = "" if time.total_s is None else f"The run would take {format_seconds(time.total_s)}. "
    paced = " The program waited for the slice (--pace)." if time.is_paced else ""
    return f"{whole}{compiling} The slice's host is taken to be {host}.{paced}"
