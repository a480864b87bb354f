"""Programs that ask which sharding the partitioner chose: `jax.debug.inspect_array_sharding`.

JAX writes two addresses of its process into such a program, a function and its argument, and the
partitioner calls them (openxla/xla `xla/python/inspect_sharding.h`). libtpu runs in another process,
so the addresses are taken out and a placeholder of the same size goes to the compiler; the worker
puts its own function there, which keeps the shardings; they come back with the result and are handed
to the addresses that stood in the program.
"""

from __future__ import annotations

import ctypes
import re
import struct
from typing import Any

#: Bytes of a callback as a program holds it: a function's address, its argument's.
CALLBACK_BYTES = 16

_CALLBACK = struct.Struct("<QQ")
_PLACEHOLDER = re.compile(rb"vtpu-inspect(\d{4})")


class _Arguments(ctypes.Structure):
    """What the function gets beside its argument."""

    _fields_ = (
        ("sharding", ctypes.c_void_p),
        ("sharding_size", ctypes.c_size_t),
        ("error", ctypes.c_char_p),
        ("error_scratch", ctypes.c_void_p),
        ("free_error", ctypes.c_void_p),
    )


_Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_Arguments))
_FreeError = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Arguments))


def placeholder(number: int) -> bytes:
    """What stands for callback `number` in a program for the compiler."""
    return b"vtpu-inspect%04d" % number


class Inspector:
    """The compiler's side: keeps the shardings that the partitioner reports."""

    def __init__(self) -> None:
        self.inspected: list[tuple[int, bytes]] = []
        self._function = _Function(self._keep)

    def install(self, code: bytes) -> bytes:
        """The program with this inspector's function for every placeholder."""
        address = ctypes.cast(self._function, ctypes.c_void_p).value or 0
        return _PLACEHOLDER.sub(lambda m: _CALLBACK.pack(address, int(m[1])), code)

    def _keep(self, number: int | None, arguments: Any) -> None:
        given = arguments.contents
        sharding = ctypes.string_at(given.sharding, given.sharding_size)
        self.inspected.append((number or 0, sharding))


def report_sharding(callback: bytes, sharding: bytes) -> str | None:
    """Calls a callback of this process with a serialized sharding. What it complained of, or None."""
    function, argument = _CALLBACK.unpack(callback)
    buffer = ctypes.create_string_buffer(sharding, len(sharding))
    arguments = _Arguments(ctypes.addressof(buffer), len(sharding))
    _Function(function)(argument, ctypes.byref(arguments))
    error = arguments.error
    if error is None:
        return None
    if arguments.free_error:
        _FreeError(arguments.free_error)(ctypes.byref(arguments))
    return error.decode(errors="replace")
