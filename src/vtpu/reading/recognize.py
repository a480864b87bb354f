"""What a file is, told from its contents alone; names and endings are not asked."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from enum import Enum

from vtpu.reading import wire

#: How much of a file is looked at to tell its kind; messages are searched in all of it.
_HEAD = 1 << 16


class Kind(Enum):
    """A kind of file. The value is its name for people."""

    RECORDING = "a recording of vtpu"
    MESSAGES = "a log or message about memory"
    HLO_TEXT = "HLO text"
    HLO_PROTO = "an HloProto: a module, perhaps with its buffer assignment"
    HLO_MODULE = "an HloModuleProto"
    HLO_WITH_CONFIG = "an HloModuleProtoWithConfig"
    STABLEHLO_TEXT = "StableHLO text"
    MLIR_TEXT = "MLIR text of another dialect"
    MLIR_BYTECODE = "MLIR bytecode (StableHLO)"
    EXPORT = "a program of jax.export"
    MEMORY_PROFILE = "a memory profile (pprof)"
    XPLANE = "a profile of jax.profiler (xplane)"
    BUFFER_ASSIGNMENT = "the text of a buffer assignment"
    USAGE_REPORT = "a memory usage report"
    USAGE_REPORT_PROTO = "a memory usage report (proto)"
    LIVE_RANGE = "the text of live ranges"
    LLVM_TEXT = "LLVM assembly"
    JSON = "JSON"
    TEXT = "text that no reader knows"
    EMPTY = "an empty file"
    ELF = "a program or library (ELF)"
    IMAGE = "an image"
    ARCHIVE = "an archive"
    PYTHON_OBJECTS = "Python objects (pickle or NumPy)"
    GZIP = "a packed file of another kind"
    BINARY = "bytes that no reader knows"


#: The first line of a recording (`vtpu.recording.file`).
_RECORDING = b"vtpu recording "
_MAGICS: tuple[tuple[bytes, Kind], ...] = (
    (_RECORDING, Kind.RECORDING),
    (b"ML\xefR", Kind.MLIR_BYTECODE),
    (b"\x7fELF", Kind.ELF),
    (b"\x89PNG\r\n", Kind.IMAGE),
    (b"\xff\xd8\xff", Kind.IMAGE),
    (b"GIF8", Kind.IMAGE),
    (b"RIFF", Kind.IMAGE),
    (b"PK\x03\x04", Kind.ARCHIVE),
    (b"PK\x05\x06", Kind.ARCHIVE),
    (b"BZh", Kind.ARCHIVE),
    (b"\xfd7zXZ\0", Kind.ARCHIVE),
    (b"\x28\xb5\x2f\xfd", Kind.ARCHIVE),
    (b"\x93NUMPY", Kind.PYTHON_OBJECTS),
    (b"\x80\x03", Kind.PYTHON_OBJECTS),
    (b"\x80\x04\x95", Kind.PYTHON_OBJECTS),
    (b"\x80\x05\x95", Kind.PYTHON_OBJECTS),
)
_GZIP = b"\x1f\x8b"
_TAR_AT, _TAR = 257, b"ustar"

#: A word of every template about memory (messages T1 to T27).
MESSAGE_WORDS = re.compile(
    rb"Ran out of memory|out of memory|Out of memory|RESOURCE_EXHAUSTED|Resource exhausted"
    rb"|Attempting to (?:allocate|reserve)|usage >= |Largest program allocations|Unpadded size:"
    rb"|XLA label:|Aborting compilation early|Hbm usage:|would exceed memory \(size"
    rb"|Could not allocate \d|expected parameter \d|unexpected memory space"
    rb"|Failed to allocate request|CUDNN_STATUS_|CUBLAS_STATUS_|DNN library is not found"
    rb"|in-memory CUBIN|Some donated buffers|Donation requested|deleted or donated"
    rb"|donate the same buffer|reduce memory use below|Involuntary full remat|Disallowed \w+-to-"
    rb"|(?:host|device)-to-(?:host|device) transfer:|TRACING CACHE MISS|XLA::TPU program"
    rb"|rematerialization limit|Post Compilation Analysis|Constant folding an instruction"
    rb"|constants were captured|Tensor which is moved to host|[Ee]xit(?:ed)?[^\n]{0,20} 137"
    rb"|OOM[- ]?[Kk]illed|BufferAssignment OOM|requirement \d|Allocation type:"
)
_TEXTS: tuple[tuple[re.Pattern[bytes], Kind], ...] = (
    (re.compile(rb"HloModule [\w.\-<>]+"), Kind.HLO_TEXT),
    (re.compile(rb"BufferAssignment:\s|allocation \d+: (?:0x[0-9a-f]+, )?size \d"),
     Kind.BUFFER_ASSIGNMENT),
    (re.compile(rb"(?:Total bytes used: \d[^\n]*\s+)?Used values:\s"), Kind.BUFFER_ASSIGNMENT),
    (re.compile(rb"Memory Space: [^\n]*\(color=\d+\)"), Kind.USAGE_REPORT),
    (re.compile(rb"HloLiveRange \(max"), Kind.LIVE_RANGE),
    (re.compile(rb"; ModuleID = |target datalayout = "), Kind.LLVM_TEXT),
)  # fmt: skip
#: HLO printed without its first line.
_HLO_BODY = re.compile(rb"^(?:ENTRY )?%?[\w.\-]+ (?:\([^\n]*\) -> [^\n]*)?\{\s*$", re.MULTILINE)
_HLO_LINE = re.compile(rb"^\s*(?:ROOT )?%?[\w.\-]+ = [^\n]*\w\(", re.MULTILINE)
_STABLE = re.compile(rb"stablehlo\.|mhlo\.|chlo\.|func\.func public @main")
_MLIR = re.compile(
    rb"^\s*(?:module\b[^\n]*\{|func\.func |#\w+ = |// -----// IR Dump)", re.MULTILINE
)


def recognize(data: bytes) -> Kind:
    """What `data`, the contents of a file, is. Never raises."""
    if kind := _by_magic(data):
        return kind
    if data.startswith(_GZIP):
        return _packed(data)
    if _is_export(data):
        return Kind.EXPORT
    if _is_text(data):
        return _text(data)
    kind = _message(data)
    return Kind.MESSAGES if kind is Kind.BINARY and _is_torn_log(data) else kind


def as_text(data: bytes) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a mark; other bytes become replacement signs."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def _by_magic(data: bytes) -> Kind | None:
    if not data:
        return Kind.EMPTY
    if data[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return Kind.ARCHIVE
    return next((kind for magic, kind in _MAGICS if data.startswith(magic)), None)


# ---- texts --------------------------------------------------------------------------------------


def _is_text(data: bytes) -> bool:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return len(data) > 2 and data[:512].count(0) >= min(len(data), 512) // 4
    head = data[:_HEAD]
    if b"\0" in head:
        return False
    allowed = b"\t\n\r\f\x1b"
    strange = sum(head.count(bytes([c])) for c in range(32) if c not in allowed)
    decoded = head.decode("utf-8-sig", errors="replace")
    return strange * 100 <= len(head) and decoded.count("\ufffd") * 20 <= len(decoded)


def _is_torn_log(data: bytes) -> bool:
    """A log with zeros where a rotation or a crash left a hole in its file."""
    rest = data.replace(b"\0", b"")
    return _is_text(rest) and MESSAGE_WORDS.search(rest) is not None


def _text(data: bytes) -> Kind:
    plain = as_text(data).encode() if data[:2] in (b"\xff\xfe", b"\xfe\xff") else data
    head = plain[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        return Kind.EMPTY
    begins = next((kind for regex, kind in _TEXTS if regex.match(head)), None)
    if begins is None and _MLIR.match(head):
        begins = Kind.STABLEHLO_TEXT if _STABLE.search(plain, 0, 1 << 20) else Kind.MLIR_TEXT
    return begins or (Kind.MESSAGES if MESSAGE_WORDS.search(plain) else _other_text(plain, head))


def _other_text(plain: bytes, head: bytes) -> Kind:
    """A text that does not begin as texts of its kind do."""
    if _HLO_LINE.search(head) and _HLO_BODY.search(head):
        return Kind.HLO_TEXT
    for regex, kind in _TEXTS[1:]:
        if regex.search(head):
            return kind
    is_json = head[:1] in (b"{", b"[") and plain.rstrip()[-1:] in (b"}", b"]")
    return Kind.JSON if is_json else Kind.TEXT


# ---- bytes --------------------------------------------------------------------------------------


def _is_export(data: bytes) -> bool:
    """A flatbuffer (jax `_src/export/serialization.py`) with a StableHLO module in it."""
    root = int.from_bytes(data[:4], "little")
    return 4 <= root < min(len(data), 1 << 12) and b"ML\xefR" in data


def _packed(data: bytes) -> Kind:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        head = unpacker.decompress(data[: _HEAD * 4], _HEAD * 4)
    except zlib.error:
        return Kind.GZIP
    if _is_pprof(head):
        return Kind.MEMORY_PROFILE
    return Kind.XPLANE if _message(head) is Kind.XPLANE else Kind.GZIP


def _message(data: bytes) -> Kind:
    """Which protobuf message the bytes are, from its first fields; a cut one is told as well."""
    tests: tuple[tuple[Callable[[bytes], bool], Kind], ...] = (
        (_is_module, Kind.HLO_MODULE),
        (_is_pprof, Kind.MEMORY_PROFILE),
        (_is_xplane, Kind.XPLANE),
        (_is_usage_report, Kind.USAGE_REPORT_PROTO),
    )
    for is_such, kind in tests:
        if is_such(data):
            return kind
    first = _first(data)
    if first is None or first[0] != 1 or not _is_module(first[1]):
        return Kind.BINARY
    numbers = [number for number, _ in _fields(data, limit=8)]
    return Kind.HLO_WITH_CONFIG if numbers[1:2] == [2] else Kind.HLO_PROTO


def _fields(data: bytes | memoryview, limit: int) -> list[tuple[int, wire.Value]]:
    """The first fields, up to where the bytes end or are no message."""
    fields: list[tuple[int, wire.Value]] = []
    try:
        for field in wire.read_fields(data):
            fields.append(field)
            if len(fields) == limit:
                break
    except wire.WireError:
        pass  # what was read before tells enough
    return fields


def _first(data: bytes | memoryview) -> tuple[int, memoryview] | None:
    """The first field if it is a message, though the bytes may end within it."""
    view = memoryview(data)
    try:
        tag, at = wire.read_varint(view, 0)
        length, at = wire.read_varint(view, at)
    except wire.WireError:
        return None
    return (tag >> 3, view[at : at + length]) if tag & 7 == 2 else None


_NAME = re.compile(rb"[\x21-\x7e]{1,4096}")


def _is_name(value: wire.Value) -> bool:
    return isinstance(value, memoryview) and _NAME.fullmatch(value) is not None


def _is_module(data: bytes | memoryview) -> bool:
    """An HloModuleProto begins with its name, the name of its entry, and a computation."""
    fields = _fields(data, limit=3)
    if [number for number, _ in fields[:2]] != [1, 2]:
        return False
    third = fields[2][0] if len(fields) > 2 else 3
    return all(_is_name(value) for _, value in fields[:2]) and third == 3


def _is_pprof(data: bytes) -> bool:
    """A profile begins with types of samples: pairs of numbers of strings."""
    fields = _fields(data, limit=2)
    return bool(fields) and all(n == 1 and _is_pair(value) for n, value in fields)


def _is_pair(value: wire.Value) -> bool:
    if not isinstance(value, memoryview) or len(value) > 12:
        return False
    inner = _fields(value, limit=3)
    is_numbers = all(isinstance(number, int) for _, number in inner)
    return [number for number, _ in inner] == [1, 2] and is_numbers


def _is_usage_report(data: bytes) -> bool:
    """A report is memory spaces: a total, a colour, and allocations with a table in each."""
    first = _first(data)
    if first is None or first[0] != 1:
        return False
    numbers = [number for number, _ in _fields(first[1], limit=3)]
    return numbers == [1, 2, 3] and b"cumulative_size; " in bytes(first[1][: 1 << 20])


def _is_xplane(data: bytes) -> bool:
    """An XSpace is planes; a plane has a number (1) or a name (2) like `/device:TPU:0` first."""
    first = _first(data)
    if first is None or first[0] != 1:
        return False
    names = [value for number, value in _fields(first[1], limit=3) if number == 2]
    return bool(names) and isinstance(names[0], memoryview) and bytes(names[0][:1]) == b"/"
