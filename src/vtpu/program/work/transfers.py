"""What copy engines move while the core goes on: copies and slices with a start and a done.

`copy-start` gives (copy, original, context); an asynchronous slice is an `async-start` whose
computation is the slice, and gives ((operands), result, context). What a program sends to and receives
from its host goes over the host link.
"""

from __future__ import annotations

from vtpu.program.memory import MemorySpace
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape, Shape, leaves
from vtpu.program.work.amounts import Transfer
from vtpu.program.work.traffic import padded_bytes, read_by, written_by

_MOVES = ("copy", "slice", "dynamic-slice", "dynamic-update-slice", "bitcast")


def transfer_of(module: Module, instruction: Instruction) -> Transfer | None:
    """What an asynchronous copy or a transfer to or from the host moves; None for other instructions."""
    if instruction.opcode == "copy-start":
        return _copy(instruction)
    if instruction.opcode == "async-start":
        return _wrapped(module, instruction)
    if instruction.opcode in ("send", "outfeed"):
        value = module.by_id[instruction.operands[0]].shape
        return Transfer(_space(value), MemorySpace.HOST, padded_bytes(value))
    if instruction.opcode in ("recv", "infeed"):  # of (value, …, token)
        shape = instruction.shape
        value = shape[0] if isinstance(shape, tuple) and shape else shape
        return Transfer(MemorySpace.HOST, _space(value), padded_bytes(value))
    return None


def _copy(instruction: Instruction) -> Transfer | None:
    shape = instruction.shape
    if not isinstance(shape, tuple) or len(shape) < 2:
        return None
    size = max(padded_bytes(shape[0]), padded_bytes(shape[1]))
    return Transfer(_space(shape[1]), _space(shape[0]), size)


def _wrapped(module: Module, instruction: Instruction) -> Transfer | None:
    computation = module.computations[instruction.called[0]]
    root = module.by_id[computation.root]
    if root.opcode not in _MOVES:
        return None
    read, written = read_by(module, root), written_by(module, root)
    source = module.by_id[root.operands[1 if root.opcode == "dynamic-update-slice" else 0]]
    size = sum(written.values()) or sum(read.values())
    return Transfer(_space(source.shape), _space(root.shape), size)


def _space(shape: Shape) -> int:
    for _, leaf in leaves(shape):
        if isinstance(leaf, ArrayShape):
            return leaf.layout.memory_space
    return 0
