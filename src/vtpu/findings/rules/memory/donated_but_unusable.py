"""Arguments that are donated and whose memory no output takes."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.argument_roles import tree_of
from vtpu.analysis.program.donation import Mismatch, Unusable, unusable_donations
from vtpu.analysis.run.definitions import definition_of
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.rules.memory.not_donated import donatable
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.units import format_bytes

_CHANGES = {
    Mismatch.NOTHING: "leave {name} out of the donated arguments, or return what replaces it",
    Mismatch.GROWS: "make {name} of its final size before the loop and write into it with "
    "`jax.lax.dynamic_update_slice`: then it keeps its memory, and one program serves all steps",
    Mismatch.SHARDING: "return it sharded as it comes in: `out_shardings` equal to the sharding of {name}, "
    "or `jax.lax.with_sharding_constraint` on the result",
    Mismatch.TYPE: "return it as {ours}, as it comes in, or keep {name} as {theirs}: `.astype` on one side",
    Mismatch.LAYOUT: "give the result the layout and the memory of {name}: the same `Layout` and memory kind",
}


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of each kind of mismatch, and one where donation is switched off."""
    record, memory, usage = subject.record, subject.report.memory, subject.report.usage
    if record is None or memory is None or usage is None:
        return
    if record.donation_is_off:
        yield from _switched_off(subject)
    is_spread = record.num_partitions > 1
    found = unusable_donations(memory, usage, record.asked_to_donate or (), is_spread=is_spread)
    for mismatch in Mismatch:
        alike = [u for u in found if u.mismatch is mismatch]
        if alike:
            yield _finding(subject, mismatch, alike)


def _finding(subject: ProgramSubject, mismatch: Mismatch, alike: list[Unusable]) -> Finding:
    size = sum(_saved(u) for u in alike)
    trees = list(dict.fromkeys(tree_of(u.argument.item.name) for u in alike))
    names = ", ".join(trees)
    # what grows is another program at every step, and the matter is one
    twice = (
        f"; old and new take {format_bytes(size)} twice"
        if size and mismatch is not Mismatch.GROWS
        else ""
    )
    return Finding(
        rule=RULE.slug,
        severity=_severity(subject, mismatch, size),
        title=f"donated, but not used: {names}: {_reason(mismatch, alike[0])}{twice}",
        change=_change(mismatch, alike[0], names),
        evidence=tuple(e for u in alike for e in _evidence(u)),
        cost=Cost(hbm=hbm_bytes(size) if size else None),
        line=_line(subject) if _line(subject).line else _output_line(alike),
        program=subject.name,
    )


def _output_line(alike: list[Unusable]) -> SourceLine:
    return next((u.output.line for u in alike if u.output), UNKNOWN_LINE)


def _severity(subject: ProgramSubject, mismatch: Mismatch, size: int) -> Severity:
    found = of_hbm(size, subject.report.need_bytes, subject.limit_bytes)
    # what grows is compiled anew at every step, however small it is
    return max(found, Severity.LOW) if mismatch is Mismatch.GROWS else found


def _saved(unusable: Unusable) -> int:
    """Bytes that an output would not take if it were like the argument."""
    output = unusable.output
    return min(unusable.argument.item.bytes, output.bytes) if output else 0


def _reason(mismatch: Mismatch, first: Unusable) -> str:
    if first.output is None or mismatch is Mismatch.GROWS:
        return str(mismatch)
    return f"{mismatch} ({first.argument.item.shape_text} in, {first.output.shape_text} out)"


def _change(mismatch: Mismatch, first: Unusable, names: str) -> str:
    theirs = first.output.dtype if first.output else ""
    return _CHANGES[mismatch].format(name=names, ours=first.argument.item.dtype, theirs=theirs)


def _evidence(unusable: Unusable) -> Iterable[Evidence]:
    item, output = unusable.argument.item, unusable.output
    yield Evidence(
        what=f"argument {item.name}, {item.shape_text}, was to be donated",
        amount=hbm_bytes(item.bytes, Basis.JAX),
    )
    if output is not None:
        yield Evidence(
            what=f"{output.name}, {output.shape_text}, has memory of its own",
            amount=hbm_bytes(output.bytes),
            line=output.line,
        )


def _switched_off(subject: ProgramSubject) -> Iterable[Finding]:
    trees = donatable(subject)
    size = sum(trees.values())
    if not trees:
        return
    names = ", ".join(trees)
    yield Finding(
        rule=RULE.slug,
        severity=of_hbm(size, subject.report.need_bytes, subject.limit_bytes),
        title=f"`jax_debug_nans` switches donation off: {names}; old and new take {format_bytes(size)} twice",
        change="set `jax_debug_nans` only while looking for NaNs (`with jax.debug_nans(True):`), not for "
        "whole runs",
        evidence=tuple(
            Evidence(what=f"argument {name}", amount=hbm_bytes(size))
            for name, size in trees.items()
        ),
        cost=Cost(hbm=hbm_bytes(size)),
        line=_line(subject),
        program=subject.name,
    )


def _line(subject: ProgramSubject) -> SourceLine:
    made = definition_of(subject.record) if subject.record else None
    return subject.line or made or UNKNOWN_LINE


RULE = Rule(
    code="M103",
    slug="donated-but-unusable",
    group=Group.MEMORY,
    title="Arguments are donated, but no output can take their memory",
    why="A donated argument hands its memory to an output only where shape, type, sharding and layout agree. "
    "Where they do not, JAX drops the donation while it lowers, with a warning if the sizes differ and with "
    "none where only the type or a sharding that is left open does; under `jax_debug_nans` it donates "
    "nothing at all. The old array stays alive beside the new one.",
    change="Make the output like the argument: a cache of its final size, the same `out_shardings`, the same "
    "type. Where nothing replaces an argument, do not donate it.",
    limits="What was asked for is read from JAX's own objects while it compiles; where a release keeps them "
    "otherwise, and for programs with ordered effects, nothing is known and nothing is said. Which output an "
    "argument was meant for is judged by shapes. Arguments that the program does not use are not seen.",
    fixes=("out-shardings",),
    in_program=find,
)
