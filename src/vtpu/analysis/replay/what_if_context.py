"""A run up to the request that is looked at, and changes of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vtpu.analysis.replay.requests import RequestKind, Requests
from vtpu.analysis.run.memory import shape_text
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.recording import ProgramRecord, Recording

Maker = tuple[SourceLine, str]
"""Who asks: a line, and the name of the program, or nothing for the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Another run: what would have been done differently (at one line, where it is one)."""

    kind: str
    what: str
    requests: Requests
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Requests as lists, which are faster to walk through; with the buffer of each and its shape."""

    kind: list[int]
    block: list[int]
    size: list[int]
    program: list[int]
    event: list[int]
    buffer: list[int]
    shape: list[str]


@dataclass(frozen=True, kw_only=True)
class Context:
    """A run up to the request that is looked at, which is the last of `requests` and of `event`."""

    recording: Recording
    device: int
    requests: Requests
    event: int
    lines: LineFinder

    @cached_property
    def programs(self) -> Mapping[int, ProgramRecord]:
        """Programs by number."""
        return {p.number: p for p in self.recording.programs}

    @cached_property
    def columns(self) -> Columns:
        """The requests as lists."""
        requests = self.requests
        events = self.recording.events[requests.event]
        return Columns(
            kind=requests.kind.tolist(),
            block=requests.block.tolist(),
            size=requests.size.tolist(),
            program=requests.program.tolist(),
            event=requests.event.tolist(),
            buffer=events["subject"].tolist(),
            shape=[self.shape_texts[n] for n in events["detail"].tolist()],
        )

    @cached_property
    def shape_texts(self) -> Mapping[int, str]:
        """Shapes by number, as XLA prints them without layouts."""
        numbers = np.unique(self.recording.events["detail"]).tolist()
        return {number: shape_text(self.recording, number) for number in numbers}

    @cached_property
    def live(self) -> frozenset[int]:
        """The blocks in use at the end."""
        kind, block = self.requests.kind, self.requests.block
        made = block[kind == RequestKind.ALLOCATE].tolist()
        return frozenset(made) - frozenset(block[kind == RequestKind.FREE].tolist())

    @cached_property
    def makers(self) -> list[Maker]:
        """Of each request its line, and the name of its program or nothing."""
        stacks = self.recording.events["stack"][self.requests.event].tolist()
        programs = self.requests.program.tolist()
        names = {number: p.name for number, p in self.programs.items()}
        known: dict[tuple[int, int], Maker] = {
            pair: (self.lines.line(pair[0]), names.get(pair[1], ""))
            for pair in set(zip(stacks, programs, strict=True))
        }
        return [known[pair] for pair in zip(stacks, programs, strict=True)]

    @cached_property
    def rows_by_maker(self) -> dict[Maker, list[int]]:
        """The rows of allocations by line and program, those with the most bytes first."""
        found: dict[Maker, list[int]] = defaultdict(list)
        for row in np.flatnonzero(self.requests.kind == RequestKind.ALLOCATE).tolist():
            found[self.makers[row]].append(row)
        size = self.requests.size
        return dict(sorted(found.items(), key=lambda item: -int(size[item[1]].sum())))


def rows_of_frees(requests: Requests) -> dict[int, int]:
    """By block the row where it is freed."""
    rows = np.flatnonzero(requests.kind == RequestKind.FREE)
    return dict(zip(requests.block[rows].tolist(), rows.tolist(), strict=True))
