"""What the compiler answers, as plain data that can be stored and read back."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import Any

_COMPILED = b"vtpu-compiled-3\n"
_REFUSED = b"vtpu-refused-3\n"
_BLOBS = ("fingerprint", "packed_hlo", "packed_assignment", "packed_log")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """A device of a topology, as libtpu describes it."""

    id: int
    process_index: int
    kind: str
    debug_string: str
    to_string: str
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyFacts:
    """A topology, as libtpu describes it. `hbm_bytes` is what compiler and runtime grant a device.

    `serialized` is empty where libtpu cannot serialize the topology (several slices).
    """

    name: str
    options: dict[str, Any]
    platform_version: str
    stablehlo_current: tuple[int, int, int]
    stablehlo_minimum: tuple[int, int, int]
    hbm_bytes: int
    attributes: dict[str, Any]
    devices: tuple[DeviceFacts, ...]
    serialized: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFacts:
    """A result of a program: element type (as PJRT numbers it), dimensions, layout, memory kind.

    The layout is empty where libtpu does not tell it; the module does.
    """

    element_type: int
    dims: tuple[int, ...]
    layout: str
    memory_kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A compiled program.

    `memory_stats` are the twelve figures of `PJRT_Executable_GetCompiledMemoryStats` in its order,
    bytes per device; `packed_hlo` is the optimised module as `hlo_with_config`, compressed by zlib;
    `hbm_temp_bytes` is the HBM that it reserves for temporaries while it runs;
    `inspected` are the shardings that the program asked for, with the number of who asked;
    `packed_assignment` is its `BufferAssignmentProto` and `packed_log` what libtpu logged, both
    compressed by zlib.
    """

    name: str
    outputs: tuple[OutputFacts, ...]
    memory_stats: tuple[int, ...]
    hbm_temp_bytes: int
    costs: dict[str, float]
    fingerprint: bytes
    packed_hlo: bytes
    compile_s: float
    inspected: tuple[tuple[int, bytes], ...] = ()
    packed_assignment: bytes = b""
    packed_log: bytes = b""

    @property
    def hlo(self) -> bytes:
        """The optimised module as `hlo_with_config`."""
        return zlib.decompress(self.packed_hlo)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The compiler's answer that there is no program: a PJRT error code and its message.

    `packed_hlo` is the `HloProto` that it dumped before, with the buffer assignment where it came
    that far, and `packed_log` what it logged, both compressed by zlib; empty for none.
    """

    code: int
    message: str
    packed_hlo: bytes = b""
    packed_log: bytes = b""


def pack(compiled: Compiled) -> bytes:
    """`compiled` as bytes: a JSON header, then the blobs."""
    header = asdict(compiled)
    blobs = [header.pop(name) for name in _BLOBS]
    header["inspected"] = [(number, sharding.hex()) for number, sharding in compiled.inspected]
    return _join(_COMPILED, header, blobs)


def pack_refusal(refusal: Refusal) -> bytes:
    """`refusal` as bytes in the same form."""
    header = {"code": refusal.code, "message": refusal.message}
    return _join(_REFUSED, header, [refusal.packed_hlo, refusal.packed_log])


def unpack(data: bytes) -> Compiled | Refusal:
    """What `pack` or `pack_refusal` wrote.

    Raises:
        ValueError: `data` is of another version, damaged or cut.
    """
    if data.startswith(_REFUSED):
        header, (hlo, log) = _split(_REFUSED, data)
        return Refusal(**header, packed_hlo=hlo, packed_log=log)
    header, blobs = _split(_COMPILED, data)
    outputs = tuple(_output(facts) for facts in header.pop("outputs"))
    stats = tuple(header.pop("memory_stats"))
    inspected = tuple((n, bytes.fromhex(text)) for n, text in header.pop("inspected", ()))
    return Compiled(
        outputs=outputs,
        memory_stats=stats,
        inspected=inspected,
        **dict(zip(_BLOBS, blobs, strict=True)),
        **header,
    )


def unpack_compiled(data: bytes) -> Compiled:
    """What `pack` wrote.

    Raises:
        ValueError: as `unpack`, or a refusal.
    """
    unpacked = unpack(data)
    if isinstance(unpacked, Refusal):
        raise ValueError("not a compiled program but a refusal")  # noqa: TRY004, a damaged file
    return unpacked


def _join(magic: bytes, header: dict[str, Any], blobs: list[bytes]) -> bytes:
    header["blob_sizes"] = [len(b) for b in blobs]
    text = json.dumps(header).encode()
    return b"".join([magic, struct.pack("<Q", len(text)), text, *blobs])


def _split(magic: bytes, data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    start = len(magic) + 8
    if data[: len(magic)] != magic or len(data) < start:
        raise ValueError("not a result of this version of vtpu")
    (size,) = struct.unpack("<Q", data[len(magic) : start])
    header = json.loads(data[start : start + size])
    at = start + size
    blobs: list[bytes] = []
    for blob_size in header.pop("blob_sizes"):
        blobs.append(data[at : at + blob_size])
        at += blob_size
    if at != len(data):
        raise ValueError("a result that is cut or has bytes too many")
    return header, blobs


def _output(facts: dict[str, Any]) -> OutputFacts:
    facts["dims"] = tuple(facts["dims"])
    return OutputFacts(**facts)
