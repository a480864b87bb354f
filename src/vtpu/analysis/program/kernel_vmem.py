"""How much of its VMEM limit a kernel's windows and scratch memory take, and which blocks would fit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from vtpu.program.element_types import ElementType
from vtpu.program.kernels import Kernel, KernelType
from vtpu.program.memory import MemorySpace
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape
from vtpu.program.work.custom_calls import KERNEL, kernel_config
from vtpu.reading.kernel_bodies import KernelError, read_kernel

_SUBLANES, _LANES, _WORD = 8, 128, 4  # a tile of 32-bit numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelVmem:
    """A kernel's call. `bytes` of windows, twice where they are double buffered, and scratch: spills and what
    the kernel's compiler adds come on top. `limit_bytes` is what the call may have.
    """

    call: Instruction
    bytes: int
    limit_bytes: int


def kernels_of(module: Module) -> Iterator[KernelVmem]:
    """The kernels of a module whose bodies and limits can be read."""
    for call in module.by_id.values():
        if call.custom_call_target != KERNEL:
            continue
        body, limit = kernel_config(call.attributes).get("body"), _limit(call.attributes)
        if isinstance(body, str) and limit:
            try:
                kernel = read_kernel(body)
            except KernelError:  # then nothing is known of its windows
                continue
            yield KernelVmem(call=call, bytes=_bytes(kernel), limit_bytes=limit)


def _limit(attributes: bytes) -> int | None:
    """The scoped VMEM of a call, as libtpu writes it into its attributes."""
    try:
        found = json.loads(attributes)
    except ValueError:  # cut or foreign
        return None
    configs = found.get("scoped_memory_configs", []) if isinstance(found, dict) else []
    sizes = [int(c["size"]) for c in configs if c.get("memory_space") == str(int(MemorySpace.VMEM))]
    return sizes[0] if sizes else None


def _bytes(kernel: Kernel) -> int:
    arguments = kernel.body.arguments[len(kernel.grid) + kernel.scalar_prefetch :]
    moving = [bool(w.transform) and prod(kernel.grid) > 1 for w in kernel.windows]
    times = [2 if moves else 1 for moves in moving] + [1] * len(arguments)
    return sum(
        n * _padded(a.type)
        for n, a in zip(times, arguments, strict=False)
        if a.type.memory == "vmem"
    )


def _padded(kind: KernelType) -> int:
    if kind.element is None or not kind.dims:
        return 0
    return _tiled(kind.dims, _itemsize(kind.element))


def _itemsize(element: ElementType) -> int:
    return max(1, element.bits // 8)


def _tiled(dims: Sequence[int], itemsize: int) -> int:
    """Bytes with the last two dimensions padded to tiles; of small elements a tile has more rows."""
    *outer, rows, columns = (1, *dims)
    tile = _SUBLANES * max(1, _WORD // itemsize)
    rows, columns = (-(-n // by) * by for n, by in ((rows, tile), (columns, _LANES)))
    return prod(outer) * rows * columns * itemsize


def fitting_block(arrays: Sequence[ArrayShape], limit_bytes: int) -> tuple[int, ...] | None:
    """A block of whole rows that several arrays of one shape can be cut into, so that all windows twice take
    at most half of a limit. None where the arrays differ, or nothing divides.
    """
    if not arrays or len({a.dims for a in arrays}) > 1 or len(arrays[0].dims) < 2:
        return None
    *outer, rows, columns = arrays[0].dims
    step = _SUBLANES * max(1, *(_WORD // _itemsize(a.element_type) for a in arrays))
    for parts in range(1, rows // step + 1):
        block = (*(1 for _ in outer), rows // parts, columns)
        fits = sum(2 * _tiled(block, _itemsize(a.element_type)) for a in arrays) <= limit_bytes // 2
        if rows % parts == 0 and (rows // parts) % step == 0 and fits:
            return block
    return None
