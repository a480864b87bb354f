"""Arguments whose memory an output could take, were they donated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from vtpu.analysis.program.argument_roles import tree_of
from vtpu.analysis.program.donation import STATE, Argument, could_be_donated
from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.run.definitions import definition_of, is_operation
from vtpu.analysis.run.memory import local_devices
from vtpu.analysis.run.released import Released, released_after
from vtpu.analysis.source_lines import UNKNOWN_LINE
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, count, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.severity import of_hbm
from vtpu.findings.subjects import ProgramSubject, RunSubject
from vtpu.units import format_bytes

Dies = Callable[[Argument], bool]


def in_program(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding of all arguments that could be donated; of a run's programs `in_run` tells."""
    if subject.calls is None:
        yield from _finding(subject, None)


def in_run(subject: RunSubject) -> Iterable[Finding]:
    """One finding of each program that could be given arguments that die after its calls."""
    for program in subject.programs:
        yield from _finding(program, dying(subject, program))


def donatable(subject: ProgramSubject, dies: Dies | None = None) -> dict[str, int]:
    """The arguments that could be donated, with the bytes that outputs could take of each."""
    trees: dict[str, int] = defaultdict(int)
    for item in donatable_items(subject, dies):
        trees[tree_of(item.name)] += item.bytes
    return dict(trees)


def donatable_items(subject: ProgramSubject, dies: Dies | None = None) -> list[MemoryItem]:
    """The arrays among the arguments that could be donated."""
    memory, usage, record = subject.report.memory, subject.report.usage, subject.record
    if memory is None or usage is None:
        return []
    asked = (record.asked_to_donate or ()) if record else ()
    return [argument.item for argument in could_be_donated(memory, usage, asked, dies)]


def _finding(subject: ProgramSubject, dies: Dies | None) -> Iterator[Finding]:
    record = subject.record
    cannot = record is not None and (record.donation_is_off or is_operation(record))
    trees = {} if cannot else donatable(subject, dies)
    if not trees:
        return
    size = sum(trees.values())
    names = ", ".join(trees)
    made = definition_of(record) if record else None
    seen = (Evidence(what="calls of the program", amount=count(subject.calls)),) if dies and subject.calls else ()  # fmt: skip
    yield Finding(
        rule=RULE.slug,
        severity=of_hbm(size, subject.report.need_bytes, subject.limit_bytes),
        title=f"not donated: {names}; old and new take {format_bytes(size)} twice",
        change=f"donate {names} (`jax.jit(..., donate_argnames={tuple(trees)!r})`), and use the results "
        "instead of them from then on",
        evidence=(
            *(
                Evidence(what=f"argument {name}", amount=hbm_bytes(size))
                for name, size in trees.items()
            ),
            *seen,
        ),
        cost=Cost(hbm=hbm_bytes(size, Basis.COMPILER)),
        line=subject.line or made or UNKNOWN_LINE,
        program=subject.name,
    )


def dying(subject: RunSubject, program: ProgramSubject) -> Dies | None:
    """Whether arguments of a program die after its calls; None where it was not called twice."""
    record = program.record
    devices = local_devices(subject.recording)
    if record is None or not devices:
        return None
    same = (p for p in subject.recording.programs if p.key == record.key)
    released = released_after(subject.recording, [p.number for p in same], devices[0])
    return None if released is None else _Dying(released, record.parameter_shapes).dies


class _Dying:
    """Judges arguments by what dies after calls, of each shape as many as do."""

    def __init__(self, released: Mapping[str, Released], shapes: Iterable[str]) -> None:
        self._released = released
        self._taken = Counter(shape.partition("{")[0] for shape in shapes)
        self._used: Counter[str] = Counter()

    def dies(self, argument: Argument) -> bool:
        shape = argument.item.shape_text
        if self._used[shape] >= self._count(argument, shape):
            return False
        self._used[shape] += 1
        return True

    def _count(self, argument: Argument, shape: str) -> int:
        """How many arguments of a shape die: none where all that do may be others, results for instance."""
        found = self._released.get(shape)
        if found is None:
            return 0
        are_arguments = self._taken[shape] > found.alive - found.died
        is_state = argument.is_updated and argument.item.role in STATE
        return found.died if are_arguments or is_state else 0


RULE = Rule(
    code="M101",
    slug="not-donated",
    group=Group.MEMORY,
    title="Arguments are not donated although an output could take their memory",
    why="Without donation the old state stays alive until the program has written the new one, so that "
    "both take HBM. A donated argument hands its memory to an output of the same shape, type and layout.",
    change="Name the arguments that are not used after the call in `donate_argnames` or "
    "`donate_argnums` of `jax.jit`.",
    limits="A run shows which arrays die after the calls of a program, by their shapes: of several arguments "
    "of one shape it does not show which, and where results of that shape die too, nothing is told. Operations that "
    "run outside of jit cannot donate and are left out. Of a function that was only compiled, or called once, arguments "
    "count that it updates element by element or writes into and that are state by their names (params, "
    "optimizer state, caches) or by what else the program does; whether the caller needs them later "
    "is not seen there. Updates within a loop that stacks its results are missed without a run.",
    fixes=("donate",),
    in_program=in_program,
    in_run=in_run,
)
