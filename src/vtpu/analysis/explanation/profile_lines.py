"""A memory profile by the user's line and by kind."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from vtpu.analysis.source_lines import SourceLine, UserLines
from vtpu.reading.memory_profile import MemoryProfile, ProfileSample


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileGroup:
    """Memory of one kind (`buffer`, `executable`) from one line on one device."""

    kind: str | None
    device: str | None
    line: SourceLine
    bytes: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSummary:
    """A memory profile. Totals by kind and by device; groups by line, largest first."""

    total_bytes: int
    by_kind: tuple[tuple[str | None, int], ...]
    by_device: tuple[tuple[str | None, int], ...]
    groups: tuple[ProfileGroup, ...]
    problems: tuple[str, ...]


def summarize_profile(profile: MemoryProfile, lines: UserLines | None = None) -> ProfileSummary:
    """The samples of a profile by line, kind and device; bytes sum to the profile's."""
    lines = lines or UserLines()
    found: dict[tuple[str | None, str | None, SourceLine], list[ProfileSample]] = defaultdict(list)
    for sample in profile.samples:
        found[sample.kind, sample.device, lines.line(sample.stack)].append(sample)
    groups = [
        ProfileGroup(
            kind=kind,
            device=device,
            line=line,
            bytes=sum(s.bytes for s in samples),
            count=sum(s.count for s in samples),
        )
        for (kind, device, line), samples in found.items()
    ]
    return ProfileSummary(
        total_bytes=profile.total_bytes(),
        by_kind=_totals([(s.kind, s.bytes) for s in profile.samples]),
        by_device=_totals([(s.device, s.bytes) for s in profile.samples if s.device]),
        groups=tuple(sorted(groups, key=lambda g: (-g.bytes, g.line))),
        problems=profile.problems,
    )


def _totals(sizes: list[tuple[str | None, int]]) -> tuple[tuple[str | None, int], ...]:
    totals: dict[str | None, int] = defaultdict(int)
    for key, size in sizes:
        totals[key] += size
    return tuple(sorted(totals.items(), key=lambda pair: -pair[1]))
