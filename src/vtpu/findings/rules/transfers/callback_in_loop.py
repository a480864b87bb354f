"""Programs that call the host each time they are executed."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.callbacks import HostCallback, find_callbacks
from vtpu.analysis.run.callbacks import CallbackUse, callback_uses
from vtpu.analysis.source_lines import UserLines
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, count, hbm_bytes, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import by_share, of_hbm
from vtpu.findings.subjects import ProgramSubject, RunSubject
from vtpu.units import MIB, format_bytes, format_seconds

_FEWEST_EXECUTIONS = 3
_LARGE = MIB
_SAYS_LESS = (
    "print a reduction (a mean, a norm), one shard, and only every 100 steps (`jax.lax.cond`)"
)


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """Of each callback that gathers an array; of a program that was compiled alone, of large ones too."""
    if subject.module is None:
        return
    for callback in find_callbacks(subject.module, subject.report.lines or UserLines()):
        if callback.gathered_bytes:
            yield _gathers(subject, callback)
        elif subject.calls is None and callback.bytes >= _LARGE:
            yield _is_large(subject, callback)


def _gathers(subject: ProgramSubject, callback: HostCallback) -> Finding:
    whole, part = format_bytes(callback.gathered_bytes), format_bytes(callback.held_bytes)
    extra = callback.gathered_bytes - callback.held_bytes
    return Finding(
        rule=RULE.slug,
        severity=max(of_hbm(extra, subject.report.need_bytes, subject.limit_bytes), Severity.LOW),
        title=f"{_word(callback.kind)} gathers a sharded array on every chip: {whole} in temporaries where each had {part}",
        change=_SAYS_LESS + "; what goes to the host must not be the sharded array itself",
        evidence=(
            Evidence(what="the whole array, on each chip", amount=hbm_bytes(callback.gathered_bytes), line=callback.line),
            Evidence(what="its part of the array before", amount=hbm_bytes(callback.held_bytes)),
            Evidence(what="bytes to the host in one execution", amount=hbm_bytes(callback.bytes)),
        ),
        cost=Cost(hbm=hbm_bytes(extra)),
        line=callback.line,
        program=subject.name,
    )  # fmt: skip


def _is_large(subject: ProgramSubject, callback: HostCallback) -> Finding:
    return Finding(
        rule=RULE.slug,
        severity=Severity.LOW,
        title=f"{_word(callback.kind)} hands {format_bytes(callback.bytes)} to the host in each execution",
        change=_SAYS_LESS,
        evidence=(
            Evidence(
                what="bytes to the host in one execution",
                amount=hbm_bytes(callback.bytes),
                line=callback.line,
            ),
        ),
        line=callback.line,
        program=subject.name,
    )


def find_repeated(subject: RunSubject) -> Iterable[Finding]:
    """Of each program that calls the host and was executed again and again."""
    for use in callback_uses(subject.recording):
        if use.executions >= _FEWEST_EXECUTIONS:
            yield from _repeated(subject, use)


def _repeated(subject: RunSubject, use: CallbackUse) -> Iterable[Finding]:
    program = subject.program(use.program)
    found = find_callbacks(program.module, program.report.lines or UserLines()) if program.module else ()  # fmt: skip
    if not found:
        return
    cost = use.host_s / subject.host_speed
    kinds = ", ".join(dict.fromkeys(_word(callback.kind) for callback in found))
    yield Finding(
        rule=RULE.slug,
        severity=min(by_share(cost, subject.step_s), Severity.MEDIUM),
        title=f"{program.name} calls the host in each of {use.executions} executions ({kinds}): "
        f"{format_seconds(cost)} and {format_bytes(use.bytes // use.executions)} each time",
        change=f"take what is for debugging out of the program; else {_SAYS_LESS}",
        evidence=(
            *(Evidence(what=f"{_word(c.kind)}, bytes in one execution", amount=hbm_bytes(c.bytes), line=c.line) for c in found),
            Evidence(what="values that the host got, in all", amount=count(use.values)),
            Evidence(what="how long Python takes for one execution", amount=seconds(cost, Basis.MEASURED)),
        ),
        cost=Cost(step=seconds(cost, Basis.MEASURED)),
        line=found[0].line,
        program=program.name,
    )  # fmt: skip


def _word(kind: str) -> str:
    """JAX's name for people: `jax.debug.print` of `debug_print`."""
    known = {"debug_print": "jax.debug.print", "debug_callback": "jax.debug.callback", "pure_callback": "jax.pure_callback"}  # fmt: skip
    return f"`{known.get(kind, kind)}`"


RULE = Rule(
    code="X204",
    slug="callback-in-loop",
    group=Group.TRANSFERS,
    title="A program calls the host each time it is executed",
    why="`jax.debug.print`, `io_callback` and `pure_callback` send arrays to the host in the middle of the "
    "program, and the program does not end before Python has run. A sharded array is gathered whole on every "
    "chip first, so that its temporaries take that much more HBM.",
    change="Remove what was for debugging. Return what the host needs as a result and read it rarely, or call the "
    "host with something small: a mean, a norm, one shard.",
    limits="What the callback costs is how long Python took on this machine; that the device waits for all of it "
    "is assumed. A callback that is a part of the computation is reported too. Of a program that was compiled "
    "alone only callbacks that gather or send much are.",
    in_program=find,
    in_run=find_repeated,
)
