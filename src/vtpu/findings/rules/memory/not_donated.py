"""Arguments whose memory an output could take, were they donated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from vtpu.analysis.program.argument_roles import tree_of
from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.source_lines import UNKNOWN_LINE
from vtpu.findings.finding import Cost, Evidence, Finding, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.memory import AllocationKind
from vtpu.units import format_bytes


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all arguments that could be donated."""
    trees = donatable(subject)
    if not trees:
        return
    size = sum(trees.values())
    names = ", ".join(trees)
    yield Finding(
        rule=RULE.slug,
        severity=of_hbm(size, subject.report.need_bytes, subject.limit_bytes),
        title=f"not donated: {names}; old and new take {format_bytes(size)} twice",
        change=f"donate {names} (`donate_argnames`), and use the results instead of them from then on",
        evidence=tuple(
            Evidence(what=f"argument {name}", amount=hbm_bytes(size))
            for name, size in trees.items()
        ),
        cost=Cost(hbm=hbm_bytes(size)),
        line=subject.line or UNKNOWN_LINE,
        program=subject.name,
    )


def donatable(subject: ProgramSubject) -> dict[str, int]:
    """The arguments that could be donated, with the bytes that outputs could take of each."""
    trees: dict[str, int] = defaultdict(int)
    for item in donatable_items(subject):
        trees[tree_of(item.name)] += item.bytes
    return dict(trees)


def donatable_items(subject: ProgramSubject) -> list[MemoryItem]:
    """The arrays among the arguments that could be donated."""
    hbm = subject.report.usage.hbm if subject.report.usage else None
    return _could_be_donated(hbm.items) if hbm else []


def _could_be_donated(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """Arguments that are as an output is which has memory of its own, each output once."""
    arguments: dict[tuple[str, int], list[MemoryItem]] = defaultdict(list)
    outputs: dict[tuple[str, int], int] = defaultdict(int)
    for item in items:
        key = (str(item.shape), item.bytes)
        if item.occupant.kind is AllocationKind.ARGUMENT and not item.is_donated:
            arguments[key].append(item)
        elif item.occupant.kind is AllocationKind.OUTPUT:
            outputs[key] += 1
    return [item for key, found in arguments.items() for item in found[: outputs[key]]]


RULE = Rule(
    code="M101",
    slug="not-donated",
    group=Group.MEMORY,
    title="Arguments are not donated although an output could take their memory",
    why="Without donation the old state stays alive until the program has written the new one, so that "
    "both take HBM. A donated argument hands its memory to an output of the same shape, type and layout.",
    change="Name the arguments that are not used after the call in `donate_argnames` or "
    "`donate_argnums` of `jax.jit`.",
    limits="Whether the caller still needs an argument after the call is seen in a run only, not where a "
    "function was compiled alone.",
    fixes=("donate",),
    in_program=find,
)
