"""Memory profiles as `jax.profiler.save_device_memory_profile` writes them: pprof, gzip'd.

Field numbers are those of google/pprof `proto/profile.proto`. A sample is memory allocated at one
stack: arrays (kind "buffer") on a device, or loaded programs (kind "executable").
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from vtpu.program.locations import Frame
from vtpu.reading import wire

# Profile
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6
_GZIP = b"\x1f\x8b"
#: Profiles are small; what unpacks to more is no profile.
_LARGEST = 1 << 30


@dataclass(frozen=True, slots=True)
class ProfileSample:
    """Memory of one kind on one device, allocated at one stack, innermost frame first.

    `kind` and `device` are None where the profile does not say them; programs have no device.
    """

    kind: str | None
    device: str | None
    bytes: int
    count: int
    stack: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """A profile; what could not be read is in `problems`."""

    samples: tuple[ProfileSample, ...]
    problems: tuple[str, ...]

    def total_bytes(self, kind: str | None = None, device: str | None = None) -> int:
        """Bytes of all samples, or of those of one kind or device."""
        return sum(
            sample.bytes
            for sample in self.samples
            if (kind is None or sample.kind == kind) and (device is None or sample.device == device)
        )

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that are named, in order."""
        return tuple(sorted({sample.device for sample in self.samples if sample.device}))


def read_memory_profile(data: bytes) -> MemoryProfile:
    """The profile in `data`, packed or not. Never raises: what is cut or foreign is a problem."""
    problems: list[str] = []
    unpacked = _unpack(data, problems)
    fields: dict[int, list[memoryview]] = {}
    for number, value in wire.readable_fields(unpacked, problems):
        if isinstance(value, memoryview):
            fields.setdefault(number, []).append(value)
    if _SAMPLE_TYPE not in fields:
        problems.append("this is no memory profile: it has no types of samples")
        return MemoryProfile((), tuple(problems))
    tables = _Tables(fields, problems)
    samples = tuple(_sample(view, tables, problems) for view in fields.get(_SAMPLE, []))
    if not samples and not problems:
        problems.append("the profile has no samples: nothing was allocated")
    return MemoryProfile(samples, tuple(dict.fromkeys(problems)))


def _unpack(data: bytes, problems: list[str]) -> bytes:
    if not data.startswith(_GZIP):
        return data
    unpacker = zlib.decompressobj(wbits=31)
    pieces: list[bytes] = []
    size = 0
    try:
        for at in range(0, len(data), 1 << 16):
            pieces.append(unpacker.decompress(data[at : at + (1 << 16)], _LARGEST - size))
            size += len(pieces[-1])
            if size >= _LARGEST:
                break
    except zlib.error as error:
        problems.append(f"the packed file is damaged: {error}")
    if not unpacker.eof:
        problems.append("the packed file is cut: what follows is missing")
    return b"".join(pieces)


class _Tables:
    """Strings, functions and locations by their numbers."""

    def __init__(self, fields: dict[int, list[memoryview]], problems: list[str]) -> None:
        self._strings = [bytes(v).decode(errors="replace") for v in fields.get(_STRING, [])]
        self._functions = {
            f.get(1, 0): f for f in (_numbers(v, problems) for v in fields.get(_FUNCTION, []))
        }
        self._locations: dict[int, tuple[Frame, ...]] = {}
        for view in fields.get(_LOCATION, []):
            self._add_location(view, problems)
        self.units = [
            tuple(self.string(_numbers(v, problems).get(n, 0)) for n in (1, 2))
            for v in fields[_SAMPLE_TYPE]
        ]

    def string(self, number: int) -> str | None:
        """String `number`; None when it is missing or empty."""
        return (self._strings[number] or None) if 0 <= number < len(self._strings) else None

    def frames(self, number: int) -> tuple[Frame, ...]:
        """The frames of location `number`; none when it is missing."""
        return self._locations.get(number, ())

    def _add_location(self, view: memoryview, problems: list[str]) -> None:
        number, frames = 0, list[Frame]()
        for field, value in wire.readable_fields(view, problems):
            if field == 1 and isinstance(value, int):
                number = value
            elif field == 4 and isinstance(value, memoryview):
                frames.append(self._frame(_numbers(value, problems)))
        self._locations[number] = tuple(frames)

    def _frame(self, line: dict[int, int]) -> Frame:
        function = self._functions.get(line.get(1, 0), {})
        name, file = self.string(function.get(2, 0)), self.string(function.get(4, 0))
        return Frame(file or "", name or "", max(0, wire.signed(line.get(2, 0))))


def _numbers(view: memoryview, problems: list[str]) -> dict[int, int]:
    """The numbers of a message of numbers."""
    return {n: v for n, v in wire.readable_fields(view, problems) if isinstance(v, int)}


def _sample(view: memoryview, tables: _Tables, problems: list[str]) -> ProfileSample:
    locations: list[int] = []
    values: list[int] = []
    labels: dict[str, str] = {}
    for number, value in wire.readable_fields(view, problems):
        if number in (1, 2):
            (locations if number == 1 else values).extend(_integers(value, problems))
        elif number == 3 and isinstance(value, memoryview):
            label = _numbers(value, problems)
            key, text = tables.string(label.get(1, 0)), tables.string(label.get(2, 0))
            if key and text:
                labels[key] = text
    by_unit = dict(zip((unit for _, unit in tables.units), values, strict=False))
    return ProfileSample(
        kind=labels.get("kind"),
        device=labels.get("device"),
        bytes=by_unit.get("bytes", values[-1] if values else 0),
        count=by_unit.get("count", values[0] if values else 0),
        stack=tuple(frame for location in locations for frame in tables.frames(location)),
    )


def _integers(value: wire.Value, problems: list[str]) -> list[int]:
    """Repeated numbers, packed or one."""
    if isinstance(value, int):
        return [wire.signed(value)]
    numbers: list[int] = []
    at = 0
    try:
        while at < len(value):
            number, at = wire.read_varint(value, at)
            numbers.append(wire.signed(number))
    except wire.WireError as error:
        problems.append(f"the file is cut or damaged: {error}")
    return numbers
