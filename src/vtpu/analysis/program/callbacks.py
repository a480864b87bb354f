"""Where a compiled program calls back to the host, and what it sends there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from vtpu.analysis.source_lines import SourceLine, UserLines
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape

_HOST_TRANSFER = "_xla_host_transfer_rendezvous"
_GATHERS = ("all-gather", "all-gather-done", "all-gather-start")
_HANDS_ON = ("bitcast", "copy", "copy-done", "copy-start", "get-tuple-element", "reshape", "transpose", "convert")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCallback:
    """The callbacks of one kind from one line.

    `kind` is JAX's word, `debug_print`, `io_callback` or `pure_callback`. `bytes` go to the host in one
    execution, loops apart, as the host holds them. For that every chip gathers arrays of `gathered_bytes`
    first, of which it had `held_bytes`.
    """

    kind: str
    line: SourceLine
    bytes: int
    gathered_bytes: int
    held_bytes: int


def find_callbacks(module: Module, lines: UserLines) -> tuple[HostCallback, ...]:
    """The callbacks of a program that send something, most bytes first."""
    sends: dict[tuple[str, SourceLine], list[Instruction]] = defaultdict(list)
    for _, instruction in module.program_order():
        if instruction.opcode == "send" and _HOST_TRANSFER in instruction.rendezvous:
            kind = instruction.op_name.rsplit("/", 1)[-1]
            sends[kind, lines.line(module.frames(instruction))].append(instruction)
    found = [_summarize(module, kind, line, some) for (kind, line), some in sends.items()]
    return tuple(sorted(found, key=lambda c: (-c.bytes, c.line)))


def _summarize(
    module: Module, kind: str, line: SourceLine, sends: list[Instruction]
) -> HostCallback:
    sent = [module.by_id[send.operands[0]] for send in sends]
    gathers = [gather for value in sent if (gather := _gather_before(module, value))]
    return HostCallback(
        kind=kind,
        line=line,
        bytes=sum(_host_bytes(value) for value in sent),
        gathered_bytes=sum(_bytes(gather) for gather in gathers),
        held_bytes=sum(_bytes(module.by_id[gather.operands[0]]) for gather in gathers),
    )


def _gather_before(module: Module, value: Instruction) -> Instruction | None:
    """The gather that makes a value, where nothing is computed after it."""
    while value.opcode in _HANDS_ON and value.operands:
        value = module.by_id[value.operands[0]]
    return value if value.opcode in _GATHERS else None


def _host_bytes(value: Instruction) -> int:
    return value.shape.logical_bytes if isinstance(value.shape, ArrayShape) else 0


def _bytes(value: Instruction) -> int:
    return value.shape.padded_bytes if isinstance(value.shape, ArrayShape) else 0
