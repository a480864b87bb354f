"""The report of a search for fixes: what helps, by how much, at what price, and the lines to change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vtpu.changes.change import Change
from vtpu.changes.edits import diff_of, render_files
from vtpu.changes.outcome import Attempt, Figures, FixOutcome, Results, Verdict
from vtpu.evidence import Basis
from vtpu.report.document import (
    Block,
    Bytes,
    BytesChange,
    Cell,
    Code,
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
from vtpu.units import counted, format_seconds

_MOST_ROWS = 30
_MOST_NAMED = 5  # of changes that were not tried
_SAME_WORK = (
    "Where a step does more or less than before, `of before` is its time for the same work."
)


def fix_document(outcome: FixOutcome) -> Document:
    """What the search found."""
    best = outcome.attempt(outcome.best) if outcome.best else None
    sections = [_searched(outcome)]
    if best:
        sections += _accepted(outcome, best)
        sections.append(_how_to_write(best))
    sections.append(_pareto(outcome))
    sections.append(_tried(outcome))
    if outcome.without:
        sections.append(_not_applicable(outcome))
    return Document("vtpu fix", tuple(sections))


def _searched(outcome: FixOutcome) -> Section:
    target = " ".join([outcome.target.name, *outcome.target.script_arguments])
    said = f"{counted(outcome.trials, 'trial')}, {counted(outcome.compiles, 'compile')}"
    pairs: tuple[tuple[str, Cell], ...] = (
        ("program", target),
        ("slice", outcome.slice),
        ("goal", _goal(outcome)),
        ("tried", f"{said} in {format_seconds(outcome.wall_s)}"),
    )
    notes: list[Block] = []
    if outcome.is_interrupted:
        notes.append(
            Note("The search was interrupted: this is what it had found.", is_warning=True)
        )
    if outcome.untried:
        left = counted(len(outcome.untried), "change")
        names = "; ".join(outcome.untried[:_MOST_NAMED])
        more = ", and others" if len(outcome.untried) > _MOST_NAMED else ""
        notes.append(
            Note(
                f"The limit was reached (`--within`, `--compiles`) before {left} could be tried: {names}{more}."
            )
        )
    return Section("Search", (Facts(pairs), *notes))


def _goal(outcome: FixOutcome) -> str:
    return {
        "fit": "fit: that it fits, then the step's time",
        "memory": "memory: least HBM at no more than 15 % of the step's time",
        "speed": "speed: the step's time, within HBM",
    }[outcome.goal]


# ---- before and after --------------------------------------------------------------------------


def _accepted(outcome: FixOutcome, best: Attempt) -> list[Section]:
    """The best, and what each of its changes does alone."""
    if len(best.changes) == 1:
        return [_change(outcome, best, "Best: change")]
    heading = f"Best: change {best.number}, {counted(len(best.changes), 'change')} together"
    whole = Section(heading, (_before_after(outcome, best), *_about(best)))
    alone = [a for a in outcome.attempts if len(a.changes) == 1 and a.changes[0] in best.changes]
    return [whole, *(_change(outcome, a, "Alone: change") for a in alone)]


def _change(outcome: FixOutcome, attempt: Attempt, word: str) -> Section:
    """A change by itself, with the lines to write."""
    blocks: list[Block] = [_before_after(outcome, attempt), *_about(attempt)]
    if diff := diff_text(outcome, attempt.changes):
        blocks.append(Code(diff, "diff"))
    blocks += [Note(f"To make it permanent: {c.advice}") for c in attempt.changes if c.advice]
    return Section(f"{word} {attempt.number}, {attempt.title}", tuple(blocks))


def _about(attempt: Attempt) -> list[Block]:
    notes: list[Block] = [Note(_results_text(attempt))]
    notes += [Note(f"{c.title}: {c.caution}.") for c in attempt.changes if c.caution]
    return notes


def _results_text(attempt: Attempt) -> str:
    """What is known of the results: computed, or by design."""
    design = ", ".join(dict.fromkeys(str(c.numerics) for c in attempt.changes))
    found = attempt.comparison
    if found is None or found.results is Results.NOT_COMPARED:
        why = f" ({found.detail})" if found and found.detail else ""
        return f"Results: not compared{why}; by design {design}."
    largest = f", largest relative difference {found.largest:.1e}" if found.largest else ""
    return f"Results: {found.results}{largest} ({found.detail}); by design {design}."


def _before_after(outcome: FixOutcome, attempt: Attempt) -> Table:
    before, after = outcome.baseline, attempt.figures or outcome.baseline
    peak = Basis.SIMULATED if outcome.target.is_script else Basis.COMPILER
    rows: list[tuple[Cell, ...]] = [
        _row("peak HBM", peak, before.peak_bytes, after.peak_bytes, Bytes),
        ("fits", "", _yes(before.fits), _yes(after.fits), NoFigure("")),
        _row("step", Basis.MODELLED, before.step_s, after.step_s, Seconds),
        *(
            [
                _row(
                    "step for the same work",
                    Basis.MODELLED,
                    before.step_s,
                    after.step_s / attempt.work if after.step_s else None,
                    Seconds,
                )
            ]
            if attempt.work != 1
            else []
        ),
        _row("compile", Basis.MEASURED, before.compile_s, after.compile_s, Seconds),
    ]
    if outcome.target.is_script:
        sent, read, sent_after, read_after = (
            _whole(value)
            for figures in (before, after)
            for value in (figures.to_device_bytes, figures.to_host_bytes)
        )
        rows += [
            _row("programs compiled", Basis.SIMULATED, before.compiles, after.compiles, Count),
            _row("to the device, each step", Basis.SIMULATED, sent, sent_after, Bytes),
            _row("to the host, each step", Basis.SIMULATED, read, read_after, Bytes),
        ]
    columns = (Column("figure"), Column("basis"), Column("before"), Column("after"), Column("of before"))  # fmt: skip
    return Table(columns, tuple(rows))


def _row(name: str, basis: Basis, before: float | None, after: float | None, kind: type) -> tuple[Cell, ...]:  # fmt: skip
    cells = [None if v is None else kind(v) for v in (before, after)]
    share = Share(after, before) if before and after is not None else NoFigure("")
    return name, str(basis), cells[0], cells[1], share


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _yes(value: bool | None) -> Cell:
    return None if value is None else "yes" if value else "no"


# ---- all that was tried ------------------------------------------------------------------------


def _pareto(outcome: FixOutcome) -> Section:
    """Memory against time: what is not beaten in both."""
    figures = {0: outcome.baseline, **{a.number: a.figures for a in outcome.attempts if a.figures}}
    works = {a.number: a.work for a in outcome.attempts}
    titles = {0: "as it is", **{a.number: a.title for a in outcome.attempts}}
    rows = tuple(
        (Count(n), titles[n], *_memory_and_time(figures[n], outcome.baseline, works.get(n, 1.0)))
        for n in outcome.pareto
    )
    said = "No other variant that was tried needs both less memory and less time."
    note = Note(said if set(works.values()) <= {1.0} else f"{said} {_SAME_WORK}")
    if not rows:
        return Section("HBM against time", (Note("Nothing that was tried fits."),))
    return Section("HBM against time", (Table(_columns(outcome), rows), note))


def _columns(outcome: FixOutcome) -> tuple[Column, ...]:
    peak = Basis.SIMULATED if outcome.target.is_script else Basis.COMPILER
    return (
        Column("change"),
        Column("what", wraps=True),
        Column("peak HBM", peak),
        Column("change", peak),
        Column("step", Basis.MODELLED),
        Column("of before", Basis.MODELLED),
    )


def _memory_and_time(figures: Figures, before: Figures, work: float) -> tuple[Cell, ...]:
    """Cells of a variant that does `work` times as much in a step."""
    peak = figures.peak_bytes
    less = peak - before.peak_bytes if peak is not None and before.peak_bytes is not None else None
    is_known = figures.step_s is not None and before.step_s is not None
    share = Share((figures.step_s or 0.0) / work, before.step_s or 1.0) if is_known else NoFigure()
    return (
        None if peak is None else Bytes(peak),
        NoFigure("") if less is None else BytesChange(less),
        None if figures.step_s is None else Seconds(figures.step_s),
        share,
    )


def _tried(outcome: FixOutcome) -> Section:
    rows = tuple(
        (
            Count(a.number),
            a.title,
            str(a.verdict),
            *(
                _memory_and_time(a.figures, outcome.baseline, a.work)
                if a.figures
                else [NoFigure()] * 4
            ),
            _why(a),
        )
        for a in outcome.attempts[:_MOST_ROWS]
    )
    if not rows:
        return Section("Tried", (Note("No change that vtpu knows applies to this program."),))
    first, second, *rest = _columns(outcome)
    columns = (first, second, Column("verdict"), *rest, Column("why", wraps=True))
    left_out = max(0, len(outcome.attempts) - _MOST_ROWS)
    notes = [] if all(a.work == 1 for a in outcome.attempts) else [Note(_SAME_WORK)]
    return Section("Tried", (Table(columns, rows, left_out), *notes))


def _why(attempt: Attempt) -> str:
    if attempt.reason:
        return attempt.reason
    if attempt.verdict is Verdict.HELPED and any(c.numerics == "different by design" for c in attempt.changes):  # fmt: skip
        return "results differ by design: combined only with --different"
    if attempt.figures and attempt.figures.fits is False:
        return "does not fit"
    return ""


def _not_applicable(outcome: FixOutcome) -> Section:
    rows = tuple((w.kind, w.reason) for w in outcome.without)
    return Section(
        "Cannot be applied", (Table((Column("change"), Column("why", wraps=True)), rows),)
    )


# ---- the lines ---------------------------------------------------------------------------------


def _how_to_write(best: Attempt) -> Section:
    if not any(c.edits for c in best.changes):
        return Section("To apply", (Note("None of it is in the file: see what is said above."),))
    command = f"`vtpu fix` with the same target and slice and `--apply {best.number}`"
    return Section("To apply", (Note(f"{command} writes it into the file, and keeps a backup."),))


def diff_text(outcome: FixOutcome, changes: Sequence[Change]) -> str:
    """What changes edit, as a diff of each file, named as seen from where the program runs."""
    after = render_files(outcome.texts, [e for c in changes for e in c.edits])
    return "".join(
        diff_of(_short(name, outcome.target.folder), outcome.texts[name], text)
        for name, text in after.items()
    )


def _short(name: str, folder: str) -> str:
    path = Path(folder, name)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else name
