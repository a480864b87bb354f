"""What the compiler answers, as plain data that can be stored and read back."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import Any

_MAGIC = b"vtpu-compiled-2\n"


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
    `inspected` are the shardings that the program asked for, with the number of who asked.
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

    @property
    def hlo(self) -> bytes:
        """The optimised module as `hlo_with_config`."""
        return zlib.decompress(self.packed_hlo)


def pack(compiled: Compiled) -> bytes:
    """`compiled` as bytes: a JSON header, then the two blobs."""
    header = asdict(compiled)
    blobs = [header.pop("fingerprint"), header.pop("packed_hlo")]
    header["inspected"] = [(number, sharding.hex()) for number, sharding in compiled.inspected]
    header["blob_sizes"] = [len(b) for b in blobs]
    text = json.dumps(header).encode()
    return b"".join([_MAGIC, struct.pack("<Q", len(text)), text, *blobs])


def unpack(data: bytes) -> Compiled:
    """The program that `pack` wrote.

    Raises:
        ValueError: `data` is of another version, damaged or cut.
    """
    start = len(_MAGIC) + 8
    if data[: len(_MAGIC)] != _MAGIC or len(data) < start:
        raise ValueError("not a compiled program of this version of vtpu")
    (size,) = struct.unpack("<Q", data[len(_MAGIC) : start])
    header = json.loads(data[start : start + size])
    at = start + size
    blobs = []
    for blob_size in header.pop("blob_sizes"):
        blobs.append(data[at : at + blob_size])
        at += blob_size
    if at != len(data):
        raise ValueError("a compiled program that is cut or has bytes too many")
    outputs = tuple(_output(facts) for facts in header.pop("outputs"))
    stats = tuple(header.pop("memory_stats"))
    inspected = tuple((n, bytes.fromhex(text)) for n, text in header.pop("inspected", ()))
    return Compiled(
        outputs=outputs,
        memory_stats=stats,
        inspected=inspected,
        fingerprint=blobs[0],
        packed_hlo=blobs[1],
        **header,
    )


def _output(facts: dict[str, Any]) -> OutputFacts:
    facts["dims"] = tuple(facts["dims"])
    return OutputFacts(**facts)
