"""What grew in the memory of a program between two versions of it.

Everything is compared at the peak: what is alive where one program needs most, with what is alive where
the other one does. So the differences of each grouping sum to the difference of the peaks, exactly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from vtpu.analysis.diff.changes import Figure, Pair, largest_first, pair_up
from vtpu.analysis.diff.lines import LineKey, match_lines
from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.memory import Group, MemoryItem, MemoryUsage, SpaceUsage, group_by
from vtpu.analysis.source_lines import SourceLine
from vtpu.program.memory import AllocationKind, space_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a program has under one name, bytes. `line`: of a grouping by lines, else null.

    Of allocations neither the padding in them nor their number is known.
    """

    name: str
    bytes: int
    padding_bytes: int | None = None
    count: int | None = None
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A buffer of a program. `bytes` are those at the peak, 0 when it is not alive there.

    `size_bytes` is its size in any case, `padding_bytes` of that the padding. Arguments have the
    user's name, others that of the instruction, which is the compiler's.
    """

    name: str
    kind: AllocationKind
    role: Role
    opcode: str
    shape: str | None
    bytes: int
    size_bytes: int
    padding_bytes: int | None
    op_name: str
    layer: str
    line: SourceLine | None
    is_donated: bool

    def is_like(self, other: Buffer) -> bool:
        """Whether it is the same in what matters: not the compiler's name nor where its line went."""
        return all(getattr(self, name) == getattr(other, name) for name in _WHAT_MATTERS)


_WHAT_MATTERS = ("kind", "role", "shape", "bytes", "size_bytes", "padding_bytes", "is_donated")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceDiff:
    """One memory space in both programs.

    `total_bytes` is what the compiler sets aside: `peak_bytes` and what is free at the peak.
    `by_kind` are the allocations, whose differences sum to that of the total; all other parts are
    those at the peak and sum to its difference. What is alike is left out. `buffers` are single ones,
    also those that are alive elsewhere alone.
    """

    space: str
    color: int
    total_bytes: Figure
    peak_bytes: Figure
    free_at_peak_bytes: Figure
    padding_bytes: Figure
    by_kind: tuple[Pair[Part], ...]
    by_argument: tuple[Pair[Part], ...]
    by_role: tuple[Pair[Part], ...]
    by_layer: tuple[Pair[Part], ...]
    by_line: tuple[Pair[Part], ...]
    by_dtype: tuple[Pair[Part], ...]
    buffers: tuple[Pair[Buffer], ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        values = (getattr(self, field.name) for field in fields(self))
        return not any(
            value.differs if isinstance(value, Figure) else isinstance(value, tuple) and value
            for value in values
        )

    def __neg__(self) -> SpaceDiff:
        """The comparison the other way round."""
        turned: dict[str, Any] = {f.name: _turned(getattr(self, f.name)) for f in fields(self)}
        return SpaceDiff(**turned)


def _turned(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(-pair for pair in value)  # pyright: ignore[reportUnknownVariableType]
    return -value if isinstance(value, Figure) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiff:
    """The memory of two programs, by space; spaces of either, also those that are alike."""

    before: str
    after: str
    spaces: tuple[SpaceDiff, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs. Names of programs and places of lines do not count."""
        return all(space.is_empty for space in self.spaces)

    def space(self, color: int) -> SpaceDiff | None:
        """One memory space; None when neither program has anything there."""
        return next((s for s in self.spaces if s.color == color), None)

    def __neg__(self) -> MemoryDiff:
        """The comparison the other way round."""
        spaces = tuple(-space for space in self.spaces)
        return MemoryDiff(before=self.after, after=self.before, spaces=spaces)


def diff_memory(before: MemoryUsage, after: MemoryUsage) -> MemoryDiff:
    """What differs. `diff_memory(b, a)` is `-diff_memory(a, b)`.

    Counterparts are not always unique. So that the order of the programs does not choose among them,
    the two are always compared in one order, and the result is turned round if need be.
    """
    if _fingerprint(after) < _fingerprint(before):
        return -_diff(after, before)
    return _diff(before, after)


def _fingerprint(usage: MemoryUsage) -> list[tuple[Any, ...]]:
    return [
        (
            (space.color, item.name, item.bytes, str(item.shape), item.role, item.opcode),
            (item.op_name, item.line, item.occupant.start, item.occupant.end),
        )
        for space in usage.spaces
        for item in space.items
    ]


def _diff(before: MemoryUsage, after: MemoryUsage) -> MemoryDiff:
    lines = match_lines(_sightings(before), _sightings(after))
    colors = {s.color for s in (*before.spaces, *after.spaces)}
    spaces = (
        _diff_space(c, _Side(before.space(c), lines.before), _Side(after.space(c), lines.after))
        for c in sorted(colors)
    )
    return MemoryDiff(before=before.module, after=after.module, spaces=tuple(spaces))


def _sightings(usage: MemoryUsage) -> dict[SourceLine, Counter[str]]:
    found: dict[SourceLine, Counter[str]] = defaultdict(Counter)
    for space in usage.spaces:
        for item in space.items:
            if not _is_argument(item):
                found[item.line][item.op_name] += 1
    return found


def _is_argument(item: MemoryItem) -> bool:
    return item.occupant.kind is AllocationKind.ARGUMENT


# ---- one space ---------------------------------------------------------------------------------

_Label = Callable[[MemoryItem], str]


class _Side:
    """One memory space of one program; a program without anything there has 0 bytes."""

    def __init__(self, space: SpaceUsage | None, lines: Mapping[SourceLine, LineKey]) -> None:
        self.space = space
        self.items = space.items if space else ()
        self.at_peak = space.at_peak() if space else ()
        self._lines = lines
        self._alive = {id(item) for item in self.at_peak}

    def figure(self, name: str) -> int:
        """A figure of the space in bytes."""
        return getattr(self.space, name) if self.space else 0

    def allocations(self) -> dict[Hashable, Part]:
        """What is set aside, by kind."""
        sizes = self.space.by_kind if self.space else {}
        return {kind: Part(name=str(kind), bytes=size) for kind, size in sizes.items()}

    def parts(self, label: _Label) -> dict[Hashable, Part]:
        """What is alive at the peak, by what it is called."""
        groups = group_by(self.at_peak, label)
        return {g.key: _part(g) for g in groups}

    def lines(self) -> dict[Hashable, Part]:
        """What is alive at the peak, by line; arguments by their trees, as they have none."""
        found: dict[Hashable, list[MemoryItem]] = defaultdict(list)
        for item in self.at_peak:
            found[self.line_key(item) or item.place].append(item)
        return {key: self._line_part(items) for key, items in found.items()}

    def _line_part(self, items: list[MemoryItem]) -> Part:
        (group,) = group_by(items, lambda item: item.place)
        return replace(_part(group), line=_line(items[0]))

    def line_key(self, item: MemoryItem) -> LineKey | None:
        """The item's line by a name that both programs share; None of arguments and unknown lines."""
        return None if _is_argument(item) else self._lines.get(item.line)

    def buffer(self, item: MemoryItem) -> Buffer:
        """What is reported of an item."""
        return Buffer(
            name=item.name,
            kind=item.occupant.kind,
            role=item.role,
            opcode=item.opcode,
            shape=str(item.shape) if item.shape else None,
            bytes=item.bytes if id(item) in self._alive else 0,
            size_bytes=item.bytes,
            padding_bytes=item.padding_bytes,
            op_name=item.op_name,
            layer=item.layer,
            line=_line(item),
            is_donated=item.is_donated,
        )

    # Keys by which buffers of both programs are paired, the narrowest first. Names of instructions
    # are none: the compiler numbers them anew.

    def keys(self) -> tuple[Callable[[MemoryItem], Hashable | None], ...]:
        """The keys in order."""
        return (self._exactly, self._operation, self._path, self._path_in_function, self._opcode)

    def _place(self, item: MemoryItem) -> Hashable:
        return item.name if _is_argument(item) else self.line_key(item)

    def _exactly(self, item: MemoryItem) -> Hashable:
        what = (item.occupant.kind, item.opcode, item.shape, item.bytes)
        return (self._place(item), item.op_name, what, id(item) in self._alive)

    def _operation(self, item: MemoryItem) -> Hashable:
        return (self._place(item), item.op_name, item.opcode)

    def _path(self, item: MemoryItem) -> Hashable | None:
        return (self._place(item), item.op_name) if item.op_name else None

    def _path_in_function(self, item: MemoryItem) -> Hashable | None:
        key = self.line_key(item)
        return (key.file, key.function, item.op_name) if key and item.op_name else None

    def _opcode(self, item: MemoryItem) -> Hashable | None:
        key = self.line_key(item)
        return (key, item.opcode) if key else None


def _part(group: Group) -> Part:
    return Part(
        name=group.key, bytes=group.bytes, padding_bytes=group.padding_bytes, count=group.count
    )


def _line(item: MemoryItem) -> SourceLine | None:
    return item.line if item.line.line and not _is_argument(item) else None


def _argument(item: MemoryItem) -> str:
    return item.name if _is_argument(item) else f"({item.occupant.kind})"


def _layer(item: MemoryItem) -> str:
    return item.place if _is_argument(item) else item.layer


def _diff_space(color: int, before: _Side, after: _Side) -> SpaceDiff:
    def figure(name: str) -> Figure:
        return Figure(before.figure(name), after.figure(name))

    def by(label: _Label) -> tuple[Pair[Part], ...]:
        return _pairs(before.parts(label), after.parts(label))

    padding = (sum(i.padding_bytes or 0 for i in side.at_peak) for side in (before, after))
    return SpaceDiff(
        space=space_name(color),
        color=color,
        total_bytes=figure("total_bytes"),
        peak_bytes=figure("peak_bytes"),
        free_at_peak_bytes=figure("free_at_peak_bytes"),
        padding_bytes=Figure(*padding),
        by_kind=_pairs(before.allocations(), after.allocations()),
        by_argument=by(_argument),
        by_role=by(lambda item: item.role),
        by_layer=by(_layer),
        by_line=_pairs(before.lines(), after.lines()),
        by_dtype=by(lambda item: item.dtype),
        buffers=_pair_buffers(before, after),
    )


def _pairs(
    before: Mapping[Hashable, Part], after: Mapping[Hashable, Part]
) -> tuple[Pair[Part], ...]:
    keys = dict.fromkeys((*before, *after))
    pairs = (Pair(before=before.get(key), after=after.get(key)) for key in keys)
    return largest_first([pair for pair in pairs if not _is_alike(pair.before, pair.after)])


def _is_alike(one: Part | None, other: Part | None) -> bool:
    return one is not None and other is not None and _figures(one) == _figures(other)


def _figures(part: Part) -> tuple[int | None, ...]:
    return part.bytes, part.padding_bytes, part.count


def _pair_buffers(before: _Side, after: _Side) -> tuple[Pair[Buffer], ...]:
    """Buffers that have no like counterpart."""
    keys = list(zip(before.keys(), after.keys(), strict=True))
    found: list[Pair[Buffer]] = []
    for one, other in pair_up(before.items, after.items, keys):
        a = before.buffer(one) if one else None
        b = after.buffer(other) if other else None
        if not (a and b and a.is_like(b)):
            found.append(Pair(before=a, after=b))
    return largest_first(found)
