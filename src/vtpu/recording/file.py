"""The file format of a recording: a magic line, then chunks that are written as things happen.

A chunk is a tag of four letters, the payload's size, the CRC-32 of tag and payload, the
payload. All numbers are little-endian. Payloads are compressed by zlib:

    RUN_  JSON of RunRecord, once, first
    STAK  JSON: further stacks, each a list of [file, function, line]
    SHAP  JSON: further shapes
    WHYS  JSON: further reasons why values are unknown, numbered on from the last, the first is 1
    PROG  JSON of a ProgramRecord without its blobs, its length before it; then the blobs as they are,
          whose sizes stand in the JSON (in older files there is one, `hlo`)
    EVTS  columns of further events, one after the other, in the order of EVENT_DTYPE; in the first
          form, which has a 1 in the magic line, only NUM_FIRST_COLUMNS of them
    END_  JSON of EndRecord, when the process ended by itself
    EXIT  JSON: the exit code, when somebody waited for the process

What an event refers to is written before it. A file that was cut is read up to the last whole chunk.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vtpu.errors import VtpuError
from vtpu.recording.events import EVENT_DTYPE, NUM_FIRST_COLUMNS
from vtpu.recording.recording import (
    DeviceMemory,
    DeviceRecord,
    EndRecord,
    ProgramRecord,
    Recording,
    RunRecord,
    ShapeRecord,
    Stack,
    StackFrame,
    ValuesRecord,
)

MAGIC = b"vtpu recording 2\n"
_FIRST_MAGIC = b"vtpu recording 1\n"
_MAGICS = (MAGIC, _FIRST_MAGIC)
_EVENT_COLUMNS = EVENT_DTYPE.names or ()
_COLUMNS = {MAGIC: _EVENT_COLUMNS, _FIRST_MAGIC: _EVENT_COLUMNS[:NUM_FIRST_COLUMNS]}
_HEADER = struct.Struct("<4sQI")
_BLOBS = ("hlo", "assignment", "log")  # of a program
_LEVEL = 1  # of zlib: the run waits for this


class NotARecording(VtpuError):
    """The file is something else, or of a version that this vtpu does not know."""


# ---- writing -----------------------------------------------------------------------------------


class RecordingWriter:
    """Appends chunks to an open, unbuffered binary file.

    Each is written whole or not at all: every method raises OSError when the disk is full.
    """

    def __init__(self, file: BinaryIO, run: RunRecord) -> None:
        self._file = file
        _append(self._file, MAGIC)
        self._chunk(b"RUN_", _json(asdict(run)))

    def stacks(self, stacks: Iterable[Iterable[tuple[str, str, int]]]) -> None:
        """Further stacks, numbered on from the last."""
        rows = [[list(frame) for frame in stack] for stack in stacks]
        if rows:
            self._chunk(b"STAK", _json(rows))

    def shapes(self, shapes: Iterable[tuple[int, tuple[int, ...], str, int, int]]) -> None:
        """Further shapes, numbered on from the last."""
        rows = [list(shape) for shape in shapes]
        if rows:
            self._chunk(b"SHAP", _json(rows))

    def whys(self, whys: list[str]) -> None:
        """Further reasons why values are unknown, numbered on from the last."""
        if whys:
            self._chunk(b"WHYS", _json(whys))

    def program(self, program: ProgramRecord) -> None:
        """A program."""
        fields = {name: getattr(program, name) for name in program.__slots__}
        blobs = [fields.pop(name) for name in _BLOBS]
        header = _json({**fields, "blob_sizes": [len(b) for b in blobs]})
        self._chunk(b"PROG", b"".join([struct.pack("<Q", len(header)), header, *blobs]))

    def events(self, events: np.ndarray) -> None:
        """Further events."""
        if len(events):
            columns = [np.ascontiguousarray(events[name]).tobytes() for name in _EVENT_COLUMNS]
            self._chunk(b"EVTS", b"".join(columns))

    def end(self, end: EndRecord) -> None:
        """The end."""
        self._chunk(b"END_", _json(asdict(end)))

    def exit_code(self, code: int) -> None:
        """The exit code of the process."""
        self._chunk(b"EXIT", _json(code))

    def _chunk(self, tag: bytes, payload: bytes) -> None:
        _append(self._file, encode_chunk(tag, payload))


def _append(file: BinaryIO, data: bytes) -> None:
    """Writes all of `data` at the end, or nothing of it."""
    start = file.tell()
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
    except OSError:
        file.seek(start)
        file.truncate()
        raise


def encode_chunk(tag: bytes, payload: bytes) -> bytes:
    """A chunk as it stands in the file."""
    packed = zlib.compress(payload, _LEVEL)
    return _HEADER.pack(tag, len(packed), _checksum(tag, packed)) + packed


def _checksum(tag: bytes, packed: bytes) -> int:
    return zlib.crc32(packed, zlib.crc32(tag))


def append_exit_code(path: Path, code: int) -> None:
    """Adds the exit code to a finished file. Raises OSError when the disk is full."""
    with path.open("ab", buffering=0) as file:
        _append(file, encode_chunk(b"EXIT", _json(code)))


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# ---- reading -----------------------------------------------------------------------------------


def load_recording(path: Path) -> Recording:
    """The recording in a file; of a cut file what is whole, with the reason in `problems`.

    Raises:
        NotARecording: the file is not a recording, or too short to say what ran.
        OSError: the file cannot be read.
    """
    return parse_recording(path.read_bytes(), str(path))


def read_run(path: Path) -> RunRecord | None:
    """What ran, of a recording that may still be written; None when it does not say so (yet).

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(len(MAGIC) + _HEADER.size)
        if len(head) < len(MAGIC) + _HEADER.size or not head.startswith(_MAGICS):
            return None
        _, size, _ = _HEADER.unpack_from(head, len(MAGIC))
        data = head + file.read(size)
    return next((_decode_run(json.loads(chunk)) for _, chunk in _chunks(data, [])), None)


def parse_recording(data: bytes, name: str = "the recording") -> Recording:
    """The recording in `data`. See `load_recording`."""
    if not data:
        raise NotARecording(f"{name} is empty: nothing was recorded.")
    if len(data) < len(MAGIC) and any(magic.startswith(data) for magic in _MAGICS):
        raise NotARecording(f"{name} was cut within its first line; nothing can be shown.")
    if not data.startswith(_MAGICS):
        raise NotARecording(
            f"{name} is not a recording of this version of vtpu. Recordings are made by "
            "`vtpu run --out FILE script.py`."
        )
    problems: list[str] = []
    parts = _Parts(_COLUMNS[data[: len(MAGIC)]])
    for tag, payload in _chunks(data, problems):
        parts.add(tag, payload)
    if parts.run is None:
        raise NotARecording(
            f"{name} was cut or damaged before it said what ran; nothing can be shown."
        )
    return parts.recording(tuple(problems))


def _chunks(data: bytes, problems: list[str]) -> Iterator[tuple[bytes, bytes]]:
    at = len(MAGIC)
    while at < len(data):
        if at + _HEADER.size > len(data):
            problems.append("the file ends within a chunk: the run was killed or the disk was full")
            return
        tag, size, checksum = _HEADER.unpack_from(data, at)
        packed = data[at + _HEADER.size : at + _HEADER.size + size]
        if len(packed) < size or _checksum(tag, packed) != checksum:
            problems.append(f"the file is cut or damaged {len(data) - at:,} bytes before its end")
            return
        yield tag, zlib.decompress(packed)
        at += _HEADER.size + size


class _Parts:
    """The values of the chunks read so far."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.run: RunRecord | None = None
        self._columns = columns  # of events
        self._stacks: list[Stack] = []
        self._shapes: list[ShapeRecord] = []
        self._whys: list[str] = []
        self._programs: list[ProgramRecord] = []
        self._events: list[bytes] = []
        self._end: EndRecord | None = None
        self._exit_code: int | None = None

    def add(self, tag: bytes, payload: bytes) -> None:
        if tag == b"EVTS":
            self._events.append(payload)
        elif tag == b"PROG":
            self._programs.append(_decode_program(payload))
        elif tag == b"STAK":
            self._stacks += [
                tuple(StackFrame(*frame) for frame in stack) for stack in json.loads(payload)
            ]
        elif tag == b"SHAP":
            self._shapes += [
                ShapeRecord(t, tuple(dims), layout, logical, device)
                for t, dims, layout, logical, device in json.loads(payload)
            ]
        elif tag == b"WHYS":
            self._whys += json.loads(payload)
        elif tag == b"RUN_":
            self.run = _decode_run(json.loads(payload))
        elif tag == b"END_":
            self._end = _decode_end(json.loads(payload))
        elif tag == b"EXIT":
            self._exit_code = json.loads(payload)

    def recording(self, problems: tuple[str, ...]) -> Recording:
        assert self.run is not None
        return Recording(
            run=self.run,
            stacks=tuple(self._stacks),
            shapes=tuple(self._shapes),
            whys=tuple(self._whys),
            programs=tuple(self._programs),
            events=_decode_events(self._events, self._columns),
            end=self._end,
            exit_code=self._exit_code,
            problems=problems,
        )


def _decode_events(payloads: list[bytes], columns: tuple[str, ...]) -> np.ndarray:
    size = sum(EVENT_DTYPE[name].itemsize for name in columns)
    counts = [len(payload) // size for payload in payloads]
    events = np.zeros(sum(counts), EVENT_DTYPE)
    events["cpu_ns"] = -1
    start = 0
    for payload, count in zip(payloads, counts, strict=True):
        at = 0
        for name in columns:
            column = EVENT_DTYPE[name]
            events[name][start : start + count] = np.frombuffer(payload, column, count, at)
            at += count * column.itemsize
        start += count
    return events


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a record, with JSON's lists as tuples again."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}


def _decode_program(payload: bytes) -> ProgramRecord:
    (size,) = struct.unpack_from("<Q", payload)
    fields = _tuples(json.loads(payload[8 : 8 + size]))
    at = 8 + size
    blobs: dict[str, bytes] = {}
    for name, length in zip(_BLOBS, fields.pop("blob_sizes", (len(payload) - at,)), strict=False):
        blobs[name] = payload[at : at + length]
        at += length
    return replace(ProgramRecord(**fields), **blobs)


def _decode_run(fields: dict[str, Any]) -> RunRecord:
    devices = tuple(DeviceRecord(**_tuples(d)) for d in fields.pop("devices"))
    return RunRecord(devices=devices, **_tuples(fields))


def _decode_end(fields: dict[str, Any]) -> EndRecord:
    memory = tuple(DeviceMemory(**m) for m in fields.pop("memory"))
    values = ValuesRecord(**fields.pop("values"))
    return EndRecord(memory=memory, values=values, **_tuples(fields))
