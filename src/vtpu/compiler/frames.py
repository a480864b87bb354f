"""Messages between the user's process and a worker: a JSON value and some blobs, framed by length.

A frame is two little-endian 64-bit sizes (JSON, number of blobs), the sizes of the blobs, the JSON
text, the blobs.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

Message = tuple[dict[str, Any], list[bytes]]


def encode_frame(header: dict[str, Any], blobs: list[bytes]) -> bytes:
    """A message as bytes."""
    text = json.dumps(header).encode()
    sizes = struct.pack(f"<{2 + len(blobs)}Q", len(text), len(blobs), *map(len, blobs))
    return b"".join([sizes, text, *blobs])


def read_frame(read: Callable[[int], bytes]) -> Message | None:
    """The next message, by `read(n)` which gives exactly n bytes, or fewer at the end.

    None when the other side closed its end between two messages.

    Raises:
        EOFError: it closed within a message.
    """
    head = read(16)
    if not head:
        return None
    text_size, num_blobs = struct.unpack("<2Q", _whole(head, 16))
    sizes = struct.unpack(f"<{num_blobs}Q", _whole(read(8 * num_blobs), 8 * num_blobs))
    header = json.loads(_whole(read(text_size), text_size))
    return header, [_whole(read(size), size) for size in sizes]


def _whole(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise EOFError("a message was cut")
    return data
