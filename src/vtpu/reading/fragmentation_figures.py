"""What libtpu logs of its own packing: `HLO temp 24.72M (98.7% utilization: …, 22.7% fragmentation (5.60M))`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vtpu.units import parse_bytes

_SIZE = r"-?[\d.]{1,12}[KMGT]?B?"
_SPACE = re.compile(r"Program (\w+) requirement")
_TEMP = re.compile(
    rf"HLO temp\s+(?P<total>{_SIZE}) \([^()]*utilization: Unpadded \((?P<unpadded>{_SIZE})\) "
    rf"Padded \((?P<padded>{_SIZE})\), -?[\d.]{{1,9}}% fragmentation \((?P<fragmentation>{_SIZE})\)\)"
)


@dataclass(frozen=True, slots=True)
class FragmentationFigures:
    """The figures of one memory space, in bytes, as exact as they were printed (three digits or so).

    `padded_bytes` is what libtpu counts as in use, `fragmentation_bytes` the rest; it can be negative.
    """

    text: str
    total_bytes: int
    padded_bytes: int
    fragmentation_bytes: int


def read_fragmentation_figures(log: str) -> Mapping[str, FragmentationFigures]:
    """The last figures that a compiler's log has of each memory space (`hbm`, `vmem`)."""
    found: dict[str, FragmentationFigures] = {}
    space = ""
    for line in log.splitlines():
        if heading := _SPACE.search(line):
            space = heading[1]
        elif match := _TEMP.search(line):
            found[space] = FragmentationFigures(
                text=match[0],
                total_bytes=_bytes(match["total"]),
                padded_bytes=_bytes(match["padded"]),
                fragmentation_bytes=_bytes(match["fragmentation"]),
            )
    return found


def _bytes(text: str) -> int:
    """Bytes as XLA prints them: binary units, with or without a `B`."""
    size = parse_bytes(text.removeprefix("-").removesuffix("B"))
    return -size if text.startswith("-") else size
