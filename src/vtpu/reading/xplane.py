"""Writes a profile in the form that `jax.profiler` collects: an XSpace of planes, lines and events.

Field numbers are those of openxla/xla `third_party/tsl/tsl/profiler/protobuf/xplane.proto`.
Times are nanoseconds, those of lines on the clock of the epoch; an XPlane counts picoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.reading import wire

_PS_PER_NS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """Something that happened `offset_ns` after its line began. `stats` are shown beside it."""

    name: str
    offset_ns: int
    duration_ns: int
    stats: tuple[tuple[str, int | str], ...] = ()


@dataclass(frozen=True, slots=True)
class TraceLine:
    """Events of one kind in a row."""

    name: str
    began_ns: int
    events: tuple[TraceEvent, ...]


@dataclass(frozen=True, slots=True)
class TracePlane:
    """A device, with facts about the whole of it."""

    name: str
    lines: tuple[TraceLine, ...]
    stats: tuple[tuple[str, int | str], ...] = ()


def encode_space(planes: tuple[TracePlane, ...]) -> bytes:
    """The planes as a serialized XSpace."""
    return b"".join(
        wire.write_field(1, _encode_plane(number, plane)) for number, plane in enumerate(planes)
    )


class _Names:
    """Numbers for names; from 1, since 0 is what an absent number reads as."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers) + 1)

    def encode(self, field: int) -> bytes:
        """A map from number to metadata, as field `field` of a plane."""
        out = b""
        for name, number in self._numbers.items():
            metadata = wire.write_field(1, number) + wire.write_field(2, name)
            out += wire.write_field(
                field, wire.write_field(1, number) + wire.write_field(2, metadata)
            )
        return out


def _encode_plane(number: int, plane: TracePlane) -> bytes:
    events, stats = _Names(), _Names()
    body = wire.write_field(1, number) + wire.write_field(2, plane.name)
    for i, line in enumerate(plane.lines):
        body += wire.write_field(3, _encode_line(i, line, events, stats))
    own = b"".join(wire.write_field(6, _encode_stat(stat, stats)) for stat in plane.stats)
    return body + events.encode(4) + stats.encode(5) + own


def _encode_line(number: int, line: TraceLine, events: _Names, stats: _Names) -> bytes:
    head = wire.write_field(1, number) + wire.write_field(2, line.name)
    head += wire.write_field(3, line.began_ns)
    encoded = (_encode_event(event, events, stats) for event in line.events)
    return head + b"".join(wire.write_field(4, event) for event in encoded)


def _encode_event(event: TraceEvent, events: _Names, stats: _Names) -> bytes:
    out = wire.write_field(1, events.number(event.name))
    out += wire.write_field(2, event.offset_ns * _PS_PER_NS)
    out += wire.write_field(3, event.duration_ns * _PS_PER_NS)
    return out + b"".join(wire.write_field(4, _encode_stat(s, stats)) for s in event.stats)


def _encode_stat(stat: tuple[str, int | str], stats: _Names) -> bytes:
    name, value = stat
    field = 4 if isinstance(value, int) else 5
    return wire.write_field(1, stats.number(name)) + wire.write_field(field, value)
