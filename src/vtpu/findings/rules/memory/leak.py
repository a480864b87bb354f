"""Arrays that the program keeps of every step, so that HBM fills up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from vtpu.analysis.run.arrays import arrays_of, output_number
from vtpu.analysis.run.memory import local_devices, shape_text
from vtpu.analysis.run.stepping import Growth, find_growth
from vtpu.analysis.source.keepers import Keeper, assigned_name, find_keeper
from vtpu.analysis.source_lines import SourceLine
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, count, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject
from vtpu.recording.recording import ProgramRecord
from vtpu.units import counted, format_bytes, format_count


def find(subject: RunSubject) -> Iterable[Finding]:
    """A finding for each line that keeps something, by the device where that is most."""
    by_device = (_on_device(subject, device) for device in local_devices(subject.recording))
    most = max(by_device, key=lambda found: sum(g.bytes for _, g in found), default=[])
    lines: dict[SourceLine, list[tuple[Keeper | None, Growth]]] = defaultdict(list)
    for keeper, growth in most:
        lines[keeper.line if keeper else _maker(subject, growth)].append((keeper, growth))
    for line, found in lines.items():
        yield _finding(subject, line, found[0][0], [growth for _, growth in found])


def _on_device(subject: RunSubject, device: int) -> list[tuple[Keeper | None, Growth]]:
    """What grows on a device, but for what is kept on purpose: of a bounded number, or put together."""
    arrays = arrays_of(subject.recording, device)
    found = [
        (_keeper(subject, g), g) for g in find_growth(subject.recording, arrays, subject.lines)
    ]
    return [(k, g) for k, g in found if k is None or not (k.is_bounded or k.is_gathered)]


def _keeper(subject: RunSubject, growth: Growth) -> Keeper | None:
    stack = int(subject.recording.events["stack"][growth.row])
    return find_keeper(subject.files, subject.lines.frames(stack), _result(subject, growth))


def _maker(subject: RunSubject, growth: Growth) -> SourceLine:
    return subject.lines.line(int(subject.recording.events["stack"][growth.row]))


def _program(subject: RunSubject, growth: Growth) -> ProgramRecord | None:
    return next((p for p in subject.recording.programs if p.number == growth.program), None)


def _result(subject: RunSubject, growth: Growth) -> tuple[int, int] | None:
    """Which result of its program an array is, and how many there are."""
    program = _program(subject, growth)
    module = subject.program(program.number).module if program else None
    number = output_number(module, growth.place) if module else None
    return (number, program.num_outputs) if program and number is not None else None


def _finding(
    subject: RunSubject, line: SourceLine, keeper: Keeper | None, grown: list[Growth]
) -> Finding:
    size, per_step = sum(g.bytes for g in grown), sum(g.bytes_per_step for g in grown)
    severity = _severity(subject, size, per_step)
    kept = f"{keeper.container} keeps" if keeper else "something keeps"
    return Finding(
        rule=RULE.slug,
        severity=severity if keeper else min(severity, Severity.MEDIUM),
        title=f"{format_bytes(round(per_step))} more HBM after every step: {kept} {_what(subject, grown)}",
        change=_change(subject, keeper, grown),
        evidence=tuple(_evidence(subject, line, grown)),
        cost=Cost(hbm=hbm_bytes(size, Basis.SIMULATED)),
        line=line,
        program=program.name if (program := _program(subject, grown[0])) else "",
    )


def _severity(subject: RunSubject, size: int, per_step: float) -> Severity:
    """By how soon HBM is full; critical where a run ended for want of room that these arrays took."""
    limit = subject.recording.run.hbm_bytes
    ended = subject.summary.failures if subject.recording.exit_code != 0 else ()
    if any(f.wanted_bytes <= f.free_bytes + size for f in ended):
        return Severity.CRITICAL
    if size >= limit / 5:
        return Severity.HIGH
    steps = limit / per_step
    return next((severity for most, severity in _STEPS_TO_FULL if steps < most), Severity.NOTE)


def _what(subject: RunSubject, grown: list[Growth]) -> str:
    largest = max(grown, key=lambda g: g.bytes)
    program, name = _program(subject, largest), _name(subject, largest)
    shape = shape_text(subject.recording, int(subject.recording.events["detail"][largest.row]))
    of = f" of {program.name}" if program else " from the host"
    more = f" and {counted(len(grown) - 1, 'more result')}" if len(grown) > 1 else ""
    return f"{name or 'a result'} ({shape}){of}{more}"


def _name(subject: RunSubject, growth: Growth) -> str | None:
    return assigned_name(subject.files, _maker(subject, growth), _result(subject, growth))


def _change(subject: RunSubject, keeper: Keeper | None, grown: list[Growth]) -> str:
    name = _name(subject, max(grown, key=lambda g: g.bytes)) or "the value"
    if keeper is None:
        return (
            f"find what holds {name} (a list, a cache, a closure, a logger) and give it np.asarray({name}), "
            "or let go of the old ones"
        )
    return (
        f"keep a copy on the host, np.asarray({name}), or only what is needed of it; or bound "
        f"{keeper.container}"
    )


def _evidence(subject: RunSubject, line: SourceLine, grown: list[Growth]) -> Iterable[Evidence]:
    made = sum(g.count for g in grown)
    yield Evidence(what="arrays kept", amount=count(made), line=line)
    yield Evidence(what="steps", amount=count(max(g.steps for g in grown)))
    for growth in grown[:_MOST]:
        what = f"{_what(subject, [growth])} is made here"
        size = hbm_bytes(growth.bytes, Basis.SIMULATED)
        yield Evidence(what=what, amount=size, line=_maker(subject, growth))
    limit = subject.recording.run.hbm_bytes
    per_step = sum(g.bytes_per_step for g in grown)
    text = f"HBM of {format_bytes(limit)} is full after {format_count(round(limit / per_step))} such steps"
    yield Evidence(what="at this rate", text=text)


_MOST = 5
_STEPS_TO_FULL = ((10_000, Severity.MEDIUM), (1_000_000, Severity.LOW))

RULE = Rule(
    code="M151",
    slug="leak",
    group=Group.MEMORY,
    title="Arrays of every step are kept alive from Python",
    why="An array stays in HBM as long as Python holds it: in a list of losses or metrics, a cache, a closure. "
    "What is kept of each step grows until a step finds no room, hours into a run.",
    change="Keep copies on the host (`np.asarray(x)`, `float(loss)`), bound what is kept, or let go of it.",
    limits="Only runs of at least 10 steps tell, in which a program gets its own results again or new data "
    "each time. What is emptied somewhere, of fixed size or put together behind the loop is left out. Where "
    "no line is seen that keeps the arrays, a library may, and the line is the one that makes them.",
    in_run=find,
)
