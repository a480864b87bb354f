"""Arrays that stand in the way of a request, by the lines that made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtpu.analysis.replay.addresses import BlockAt
from vtpu.analysis.run.memory import shape_text
from vtpu.analysis.source_lines import LineFinder, SourceLine
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording

_MOST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldArray:
    """An array in HBM: the line that made it, its shape, its program (None: the host), its address
    and size in bytes, and when it was made, in seconds since the recording began.
    """

    line: SourceLine
    shape: str
    program: str | None
    address: int
    bytes: int
    since_s: float


def held_arrays(
    recording: Recording, blocks: Sequence[BlockAt], lines: LineFinder
) -> tuple[HeldArray, ...]:
    """The arrays in blocks whose `block` is the row of their making, or of the failure of the execution
    that they are outputs of; the largest of them first.
    """
    names = {p.number: p.name for p in recording.programs}
    largest = sorted(blocks, key=lambda b: (-b.size, b.address))[:_MOST]
    return tuple(_held(recording, b, names, lines) for b in largest)


def _held(
    recording: Recording, block: BlockAt, names: dict[int, str], lines: LineFinder
) -> HeldArray:
    event = recording.events[block.block]
    is_array = event["kind"] == EventKind.ALLOCATE
    return HeldArray(
        line=lines.line(int(event["stack"])),
        shape=shape_text(recording, int(event["detail"]))
        if is_array
        else "an output of the same call",
        program=names.get(int(event["program"])),
        address=block.address,
        bytes=block.size,
        since_s=int(event["time_ns"]) / 1e9,
    )
