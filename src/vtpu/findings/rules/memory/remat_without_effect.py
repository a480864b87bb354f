"""Checkpoints that free nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from vtpu.analysis.program.recomputation import peak_elsewhere, recomputed_at_once
from vtpu.analysis.program.saved_activations import Kept
from vtpu.analysis.source.files import SourceFile
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.evidence import Basis
from vtpu.findings.finding import Amount, Cost, Evidence, Finding, Severity, hbm_bytes, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share, of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.op_names import Phase
from vtpu.units import format_bytes

_CHECKPOINTS = ("checkpoint", "remat")
_MOST_BUFFERS = 6


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of each way in which checkpoints free nothing; none where that is not certain."""
    yield from _kept_anyhow(subject)
    yield from _at_once(subject)
    yield from _elsewhere(subject)


# ---- what is kept in spite of it ---------------------------------------------------------------


def _kept_anyhow(subject: ProgramSubject) -> Iterator[Finding]:
    for kept in subject.report.kept:
        if not kept.is_checkpointed or _severity(subject, kept.freed_bytes) is Severity.NOTE:
            continue
        merged = None if kept.loops else _without_barrier(subject, kept)
        if not kept.is_recomputed or merged:
            yield _kept(subject, kept, merged)


def _kept(subject: ProgramSubject, kept: Kept, merged: SourceLine | None) -> Finding:
    line = merged or (kept.line if kept.line.line else subject.line or UNKNOWN_LINE)
    if merged:
        why = "with `prevent_cse=False` outside of a loop the compiler merges what is computed again with the first time"
        change = "leave `prevent_cse` out (it is true by default), or put the layers into a `jax.lax.scan`"
    else:
        why = "nothing is computed again"
        change = (
            "use a policy that keeps less: none at all (`jax.checkpoint(f)`), or "
            "`jax.checkpoint_policies.dots_with_no_batch_dims_saveable` in place of `everything_saveable`"
        )
    return Finding(
        rule=RULE.slug,
        severity=_severity(subject, kept.freed_bytes),
        title=f"`jax.checkpoint` has no effect: {format_bytes(kept.bytes)} of activations are kept all the same, for "
        f"{why}",
        change=change,
        evidence=tuple(_buffers(kept)),
        cost=Cost(hbm=hbm_bytes(kept.freed_bytes, Basis.MODELLED)),
        line=line,
        program=subject.name,
    )


def _without_barrier(subject: ProgramSubject, kept: Kept) -> SourceLine | None:
    """A checkpoint with `prevent_cse=False` and no policy in the files that the activations come from."""
    for name in dict.fromkeys(item.line.file for item in kept.items if item.line.line):
        file = subject.files.get(name)
        call = next(_open_checkpoints(file), None) if file else None
        if call is not None:
            return SourceLine(name, call.lineno, "")
    return None


def _open_checkpoints(file: SourceFile) -> Iterator[ast.Call]:
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Call):
            continue
        names = {n.attr if isinstance(n, ast.Attribute) else n.id for n in ast.walk(node) if isinstance(n, ast.Attribute | ast.Name)}  # fmt: skip
        given = {k.arg: k.value for k in node.keywords}
        value = given.get("prevent_cse")
        is_off = isinstance(value, ast.Constant) and value.value is False
        if is_off and "policy" not in given and names & set(_CHECKPOINTS):
            yield node


# ---- what is computed again at once ------------------------------------------------------------


def _at_once(subject: ProgramSubject) -> Iterator[Finding]:
    memory, usage = subject.report.memory, subject.report.usage
    found = (
        recomputed_at_once(memory.module, usage, subject.report.lines) if memory and usage else ()
    )
    size = sum(kept.bytes for kept in found)
    freed = sum(kept.freed_bytes for kept in found)
    severity = max(_severity(subject, freed), _severity_of_time(subject))
    if not found or severity is Severity.NOTE:
        return
    first = found[0]
    yield Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"`jax.checkpoint` around the whole frees nothing: {format_bytes(size)} of activations are computed again at "
        "once, and are all alive at the peak",
        change="put it around each layer or around the body of the scan, so that one layer at a time is computed again; or "
        "leave it out",
        evidence=(*_buffers(first), *_time(subject)),
        cost=Cost(hbm=hbm_bytes(freed, Basis.MODELLED), step=_lost(subject)),
        line=first.line if first.line.line else subject.line or UNKNOWN_LINE,
        program=subject.name,
    )


# ---- the peak elsewhere ------------------------------------------------------------------------


def _elsewhere(subject: ProgramSubject) -> Iterator[Finding]:
    memory, usage = subject.report.memory, subject.report.usage
    severity = _severity_of_time(subject)
    if severity is Severity.NOTE or memory is None or usage is None or usage.hbm is None:
        return
    bound = peak_elsewhere(memory.module, usage)
    if bound is None:
        return
    at_peak = next((i for i in usage.hbm.at_peak() if i.line.line), None)
    yield Finding(
        rule=RULE.slug,
        severity=severity,
        title=f"`jax.checkpoint` frees nothing: the peak of {format_bytes(bound.peak_bytes)} is elsewhere, and would be if "
        f"all {format_bytes(bound.most_kept)} that are computed again were kept",
        change="leave `jax.checkpoint` out: the program would need no more HBM and compute less; or lower the peak first",
        evidence=(
            Evidence(what=f"the peak, at {bound.where}", amount=hbm_bytes(bound.peak_bytes)),
            Evidence(
                what="at most alive from the forward to the end of the backward pass",
                amount=hbm_bytes(bound.most_there),
            ),
            Evidence(
                what="at most kept if nothing were computed again",
                amount=hbm_bytes(bound.most_kept, Basis.MODELLED),
            ),
            *_time(subject),
        ),
        cost=Cost(step=_lost(subject)),
        line=subject.line or (at_peak.line if at_peak else UNKNOWN_LINE),
        program=subject.name,
    )


# ---- what it costs -----------------------------------------------------------------------------


def _severity(subject: ProgramSubject, freed: int) -> Severity:
    need, limit = subject.report.need_bytes, subject.limit_bytes
    return min(of_hbm(freed, need, limit), Severity.MEDIUM)


def _severity_of_time(subject: ProgramSubject) -> Severity:
    lost = _lost(subject)
    found = by_share(lost.value, subject.step_s) if lost else Severity.NOTE
    return min(found, Severity.MEDIUM)


def _lost(subject: ProgramSubject) -> Amount | None:
    """The time of a step in which something is computed again."""
    time = subject.report.time
    rows = [r for r in time.rows if r.phase is Phase.RECOMPUTED] if time else []
    return seconds(sum(r.seconds for r in rows)) if rows else None


def _time(subject: ProgramSubject) -> Iterator[Evidence]:
    lost = _lost(subject)
    if lost:
        yield Evidence(what="computing again, of each step", amount=lost)


def _buffers(kept: Kept) -> Iterator[Evidence]:
    for item in sorted(kept.items, key=lambda i: -i.bytes)[:_MOST_BUFFERS]:
        yield Evidence(
            what=f"{item.role} {item.name}, {item.shape_text}",
            amount=hbm_bytes(item.bytes),
            line=item.line,
        )


RULE = Rule(
    code="M110",
    slug="remat-without-effect",
    group=Group.MEMORY,
    title="`jax.checkpoint` frees nothing",
    why="Computing again costs about a third more work, and pays where it lowers the peak. It does not with a policy "
    "that keeps everything; where the compiler merges the second computation with the first; where the whole is "
    "computed again at once; and where the peak is in another part of the program.",
    change="Checkpoint each layer or the body of the scan, with a policy that keeps little; or leave it out.",
    limits="Only what is certain is told. That the peak is elsewhere is told where it would be even if every value that is "
    "computed again lay in HBM, which is a bound far above what is needed. A policy that keeps most, but not all, is taken "
    "to be meant. Barriers that `prevent_cse` leaves within a loop, which cost time, are not looked at.",
    fixes=("checkpoint",),
    in_program=find,
)
