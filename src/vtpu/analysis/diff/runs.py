"""What differs between two runs: the slice and the releases, then programs, memory, transfers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from vtpu.analysis.diff.changes import Figure, Pair, largest_first, pair_up
from vtpu.analysis.diff.lines import LineKey, match_lines
from vtpu.analysis.diff.memory import MemoryDiff, diff_memory
from vtpu.analysis.program.memory import MemoryUsage, analyse_memory
from vtpu.analysis.program.recorded import memory_of
from vtpu.analysis.run.definitions import by_definition, definition_of
from vtpu.analysis.run.failures import MemoryFailure
from vtpu.analysis.run.memory import HbmSummary
from vtpu.analysis.run.programs import ProgramSummary, largest_program
from vtpu.analysis.run.summary import RunFacts, summarize
from vtpu.analysis.run.transfers import Direction, TransferSummary
from vtpu.analysis.source_lines import SourceLine, UserLines
from vtpu.recording.recording import ProgramRecord, Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Something about the circumstances of a run that differs; null where one run has no such thing."""

    name: str
    before: str | None
    after: str | None

    def __neg__(self) -> Setting:
        """The comparison the other way round."""
        return Setting(name=self.name, before=self.after, after=self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """All programs of one function in one run. Sizes as in `vtpu.run/1`, of the largest of them.

    `bytes`: what that needs of HBM; null when none compiled. `line`: where it was called first.
    `key` names the content of the largest; empty when that is not known.
    """

    name: str
    line: SourceLine
    compiles: int
    failed: int
    calls: int
    bytes: int | None
    argument_bytes: int | None
    output_bytes: int | None
    alias_bytes: int | None
    temp_bytes: int | None
    host_bytes: int | None
    key: str
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramDiff:
    """A function's programs in both runs. `memory` compares the largest; null if those are the same.

    `memory` is null, too, where a recording does not hold the program.
    """

    programs: Pair[ProgramFacts]
    memory: MemoryDiff | None

    def __neg__(self) -> ProgramDiff:
        """The comparison the other way round."""
        return ProgramDiff(programs=-self.programs, memory=-self.memory if self.memory else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDiff:
    """The memory of one device in both runs, bytes; null in the run that does not have it."""

    device: int
    peak_bytes: Figure
    in_use_bytes: Figure
    host_peak_bytes: Figure
    host_in_use_bytes: Figure

    @property
    def differs(self) -> bool:
        """Whether any figure does."""
        figures = (self.peak_bytes, self.in_use_bytes, self.host_peak_bytes, self.host_in_use_bytes)
        return any(figure.differs for figure in figures)

    def __neg__(self) -> DeviceDiff:
        """The comparison the other way round."""
        return DeviceDiff(
            device=self.device,
            peak_bytes=-self.peak_bytes,
            in_use_bytes=-self.in_use_bytes,
            host_peak_bytes=-self.host_peak_bytes,
            host_in_use_bytes=-self.host_in_use_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFacts:
    """The transfers of one direction from one line of one run."""

    direction: Direction
    line: SourceLine
    count: int
    bytes: int
    largest_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFacts:
    """Requests of one line that did not fit, on any device of one run. `bytes`: the first one's.

    `is_reservation`: of temporaries of the program, else of an output of it or of an array.
    """

    line: SourceLine
    program: str | None
    is_reservation: bool
    count: int
    bytes: int
    free_bytes: int
    is_fragmentation: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """Two runs. What is alike is left out; lines that moved only are alike."""

    before: RunFacts
    after: RunFacts
    problems_before: tuple[str, ...]
    problems_after: tuple[str, ...]
    settings: tuple[Setting, ...]
    programs: tuple[ProgramDiff, ...]
    devices: tuple[DeviceDiff, ...]
    transfers: tuple[Pair[TransferFacts], ...]
    failures: tuple[Pair[FailureFacts], ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs: when it ran, how long it took and where do not count."""
        return not any((self.settings, self.programs, self.devices, self.transfers, self.failures))

    def __neg__(self) -> RunDiff:
        """The comparison the other way round."""
        return RunDiff(
            before=self.after,
            after=self.before,
            problems_before=self.problems_after,
            problems_after=self.problems_before,
            settings=tuple(-s for s in self.settings),
            programs=tuple(-p for p in self.programs),
            devices=tuple(-d for d in self.devices),
            transfers=tuple(-t for t in self.transfers),
            failures=tuple(-f for f in self.failures),
        )


def diff_recordings(before: Recording, after: Recording) -> RunDiff:
    """What differs. `diff_recordings(b, a)` is `-diff_recordings(a, b)`, as of `diff_memory`."""
    one, other = _Side(before), _Side(after)
    if other.fingerprint < one.fingerprint:
        return -_diff(other, one)
    return _diff(one, other)


def _diff(before: _Side, after: _Side) -> RunDiff:
    match = match_lines(before.sightings, after.sightings)
    keys = (match.before, match.after)
    return RunDiff(
        before=before.summary.run,
        after=after.summary.run,
        problems_before=before.summary.problems,
        problems_after=after.summary.problems,
        settings=_diff_settings(before.settings(), after.settings()),
        programs=_diff_programs(before, after, keys),
        devices=_diff_devices(before.summary.hbm, after.summary.hbm),
        transfers=_pairs(before.transfers, after.transfers, keys, lambda t: t.direction),
        failures=_pairs(
            before.failures, after.failures, keys, lambda f: (f.program, f.is_reservation)
        ),
    )


# ---- one run -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Function:
    """The programs of one function, and the line by which it is known again."""

    facts: ProgramFacts
    place: SourceLine
    largest: ProgramRecord | None


class _Side:
    """What is compared of one run."""

    def __init__(self, recording: Recording) -> None:
        self.run = recording.run
        self.summary = summarize(recording, timing=None)
        groups = zip(by_definition(recording), self.summary.programs, strict=True)
        self.functions = [_function(group, summary) for group, summary in groups]
        self.transfers = [_transfer(t) for t in self.summary.transfers]
        self.failures = _failures(self.summary.failures)
        self.sightings = self._sightings()
        facts = [function.facts for function in self.functions]
        self.fingerprint = repr((facts, self.transfers, self.failures, self.summary.hbm, self.run))

    def settings(self) -> dict[str, str]:
        """The circumstances that explain differences, the weightiest first."""
        facts = self.summary.run
        hosts = {"host": f"{facts.host} of {facts.num_hosts}"} if facts.num_hosts > 1 else {}
        return {
            "slice": facts.slice,
            "device": facts.device_kind,
            "HBM per device": f"{facts.hbm_bytes_per_device:,} B",
            **hosts,
            **facts.versions,
            "command": " ".join(facts.command),
            "values": self.summary.values.mode,
            "exit code": "unknown" if facts.exit_code is None else str(facts.exit_code),
        }

    def _sightings(self) -> dict[SourceLine, Counter[str]]:
        found: dict[SourceLine, Counter[str]] = defaultdict(Counter)
        for function in self.functions:
            found[function.place][function.facts.name] += 1
        for transfer in self.transfers:
            found[transfer.line][transfer.direction] += 1
        for failure in self.failures:
            found[failure.line]["failure"] += 1
        return found

    def memory(self, function: _Function) -> MemoryUsage | None:
        """The memory of a function's largest program; None when the recording does not hold it."""
        memory = memory_of(function.largest, self.run) if function.largest else None
        if memory is None or not memory.assignment.allocations:
            return None
        return analyse_memory(memory, UserLines(self.run.library_folders))


def _function(group: list[ProgramRecord], summary: ProgramSummary) -> _Function:
    definitions = (definition_of(program) for program in group)
    largest = largest_program(group) or next((p for p in group if p.hlo), None)
    facts = ProgramFacts(
        name=summary.name,
        line=summary.line,
        compiles=summary.compiles,
        failed=summary.failed,
        calls=summary.calls,
        bytes=summary.need_bytes,
        argument_bytes=summary.argument_bytes,
        output_bytes=summary.output_bytes,
        alias_bytes=summary.alias_bytes,
        temp_bytes=summary.temp_bytes,
        host_bytes=summary.host_bytes,
        key=largest.key if largest else "",
        errors=tuple(dict.fromkeys(p.error for p in group if p.error)),
    )
    return _Function(facts, next(filter(None, definitions), summary.line), largest)


def _transfer(summary: TransferSummary) -> TransferFacts:
    return TransferFacts(
        direction=summary.direction,
        line=summary.line,
        count=summary.count,
        bytes=summary.bytes,
        largest_bytes=summary.largest_bytes,
    )


def _failures(failures: Iterable[MemoryFailure]) -> list[FailureFacts]:
    found: dict[tuple[SourceLine, str | None, bool], list[MemoryFailure]] = defaultdict(list)
    for failure in failures:
        found[failure.line, failure.program, failure.is_reservation].append(failure)
    return [
        FailureFacts(
            line=line,
            program=program,
            is_reservation=is_reservation,
            count=len(same),
            bytes=same[0].wanted_bytes,
            free_bytes=same[0].free_bytes,
            is_fragmentation=same[0].is_fragmentation,
        )
        for (line, program, is_reservation), same in found.items()
    ]


# ---- both runs ---------------------------------------------------------------------------------

_Keys = tuple[Mapping[SourceLine, LineKey], Mapping[SourceLine, LineKey]]


def _diff_settings(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Setting, ...]:
    return tuple(
        Setting(name=name, before=before.get(name), after=after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    )


def _diff_programs(before: _Side, after: _Side, keys: _Keys) -> tuple[ProgramDiff, ...]:
    def place(number: int) -> Callable[[_Function], Hashable]:
        return lambda function: (keys[number].get(function.place), function.facts.name)

    by_name: Callable[[_Function], Hashable] = lambda function: function.facts.name  # noqa: E731
    pairs = pair_up(before.functions, after.functions, [(place(0), place(1)), (by_name, by_name)])
    found = [_diff_program(before, after, one, other) for one, other in pairs]
    different = [program for program in found if program is not None]
    return tuple(sorted(different, key=lambda p: -abs(p.programs.delta_bytes or 0)))


def _diff_program(
    before: _Side, after: _Side, one: _Function | None, other: _Function | None
) -> ProgramDiff | None:
    """The difference of counterparts; None when there is none."""
    a, b = one.facts if one else None, other.facts if other else None
    if a and b and _is_same_program(a, b):
        same = replace(a, line=b.line, key=b.key) == b
        return None if same else ProgramDiff(programs=Pair(before=a, after=b), memory=None)
    memory = _diff_largest(before, after, one, other) if one and other else None
    return ProgramDiff(programs=Pair(before=a, after=b), memory=memory)


def _is_same_program(before: ProgramFacts, after: ProgramFacts) -> bool:
    """Whether the largest programs are the same; those of unknown content if their sizes are."""
    if before.key and after.key:
        return before.key == after.key
    return all(getattr(before, name) == getattr(after, name) for name in _SIZES)


_SIZES = ("bytes", "argument_bytes", "output_bytes", "alias_bytes", "temp_bytes", "host_bytes")


def _diff_largest(
    before: _Side, after: _Side, one: _Function, other: _Function
) -> MemoryDiff | None:
    a, b = before.memory(one), after.memory(other)
    return diff_memory(a, b) if a and b else None


def _diff_devices(
    before: Iterable[HbmSummary], after: Iterable[HbmSummary]
) -> tuple[DeviceDiff, ...]:
    one, other = {d.device: d for d in before}, {d.device: d for d in after}

    def figure(device: int, name: str) -> Figure:
        a, b = one.get(device), other.get(device)
        return Figure(getattr(a, name) if a else None, getattr(b, name) if b else None)

    found = (
        DeviceDiff(device=d, **{name: figure(d, name) for name in _DEVICE_FIGURES})
        for d in sorted({*one, *other})
    )
    return tuple(d for d in found if d.differs)


_DEVICE_FIGURES = ("peak_bytes", "in_use_bytes", "host_peak_bytes", "host_in_use_bytes")
_R = TypeVar("_R", TransferFacts, FailureFacts)


def _pairs(
    before: list[_R], after: list[_R], keys: _Keys, what: Callable[[_R], Hashable]
) -> tuple[Pair[_R], ...]:
    """Rows of lines that are the same ones, without those that are alike."""

    def key(number: int) -> Callable[[_R], Hashable]:
        return lambda row: (keys[number].get(row.line), what(row))

    pairs = pair_up(before, after, [(key(0), key(1))])
    return largest_first(
        [
            Pair(before=a, after=b)
            for a, b in pairs
            if not (a and b and replace(a, line=b.line) == b)
        ]
    )
