"""The operations of a step as rows: how long, why, and where in the user's program."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vtpu.analysis.program.sources import source_of
from vtpu.analysis.source_lines import SourceLine, UserLines
from vtpu.analysis.time.accounting import Account
from vtpu.analysis.time.retiming import bound_of, next_bound_of
from vtpu.clock.program_time import OperationTime, ProgramTime
from vtpu.clock.resources import Resource
from vtpu.program.modules import Instruction, Module
from vtpu.program.op_names import Phase, layer_of, phase_of
from vtpu.program.work import collective_in

UNATTRIBUTED = "unattributed"
_KERNEL = "tpu_custom_call"
_LOOPS = ("while", "call", "conditional")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """An operation, all its runs together.

    `core_s` is its time on the core, `waited_s` what the core waited for it while it ran beside;
    `flops` and `hbm_bytes` None where they are unknown. `limit_s` is the time in which a chip at its
    data sheet's peaks would compute the FLOPs or move the bytes, whichever is longer.
    """

    instruction: Instruction
    time: OperationTime
    kind: str
    op_name: str
    layer: str
    phase: Phase
    line: SourceLine
    core_s: float
    waited_s: float
    flops: int | None
    hbm_bytes: int | None
    link_bytes: int
    limit_s: float | None

    @property
    def seconds(self) -> float:
        """Its part of the step."""
        return self.core_s + self.waited_s

    @property
    def alone_s(self) -> float | None:
        """What its runs would take alone; None without a model."""
        return self.time.time.seconds * self.time.runs if self.time.time else None

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte of HBM; None where one of them is unknown or there are no bytes."""
        return self.flops / self.hbm_bytes if self.flops is not None and self.hbm_bytes else None

    @property
    def of_peak(self) -> float | None:
        """The part of the chip's peak that it reaches, of FLOPs or of HBM, whichever bounds it at best."""
        return self.limit_s / self.alone_s if self.limit_s and self.alone_s else None

    @property
    def bound(self) -> Resource | None:
        """What bounds it."""
        return bound_of(self.time)

    @property
    def next_bound(self) -> tuple[Resource | None, float]:
        """What would bound it if that were gone, and its part of the step's time then, in seconds."""
        resource, part = next_bound_of(self.time)
        return resource, part * self.seconds

    @property
    def place(self) -> str:
        """The user's line."""
        return str(self.line) if self.line.line else UNATTRIBUTED

    @property
    def is_communication(self) -> bool:
        """Whether it moves data between chips."""
        return self.kind in _COLLECTIVE_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeGroup:
    """Operations that have something in common, and their part of the step."""

    key: str
    core_s: float
    waited_s: float
    flops: int
    hbm_bytes: int
    count: int

    @property
    def seconds(self) -> float:
        """Their part of the step."""
        return self.core_s + self.waited_s


_COLLECTIVE_KINDS = {
    "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute",
    "ragged-all-to-all", "reduce-scatter",
}  # fmt: skip


def rows_of(
    module: Module, time: ProgramTime, account: Account, lines: UserLines
) -> tuple[OperationRow, ...]:
    """A row for every operation that takes time or of which it is unknown, the longest first."""
    found = [
        _row(module, time, account, lines, operation)
        for operation in time.operations.values()
        if operation.time is None or operation.time.seconds or operation.instruction in account.core
    ]
    return tuple(sorted(found, key=lambda r: -r.seconds))


def _row(
    module: Module,
    time: ProgramTime,
    account: Account,
    lines: UserLines,
    operation: OperationTime,
) -> OperationRow:
    instruction = module.by_id[operation.instruction]
    source = source_of(module, instruction)
    flops, moved = (_all_runs(n, operation) for n in (operation.flops, operation.hbm_bytes))
    return OperationRow(
        instruction=instruction,
        time=operation,
        kind=kind_of(module, instruction, operation),
        op_name=source.op_name,
        layer=layer_of(source.op_name),
        phase=phase_of(source.op_name),
        line=lines.line(source.frames),
        core_s=account.core.get(instruction.id, 0.0),
        waited_s=account.waits.get(instruction.id, 0.0),
        flops=flops,
        hbm_bytes=moved,
        link_bytes=round(operation.link_bytes * operation.runs),
        limit_s=_limit(time, flops, moved),
    )


def _all_runs(amount: int | None, operation: OperationTime) -> int | None:
    return None if amount is None else round(amount * operation.runs)


def _limit(time: ProgramTime, flops: int | None, moved: int | None) -> float | None:
    if flops is None or moved is None:
        return None
    return max(flops / time.peak_flops_per_s, moved / time.hbm_bytes_per_s)


def kind_of(module: Module, instruction: Instruction, operation: OperationTime) -> str:
    """What sort of operation it is, in the field's words."""
    if part := collective_in(module, instruction):
        if part.part in ("whole", "start"):
            return part.kind
        if part.part == "done":
            return f"{part.kind} done"
    opcode = instruction.opcode
    if opcode == "custom-call":
        is_kernel = instruction.custom_call_target == _KERNEL
        return "kernel" if is_kernel else f"custom call {instruction.custom_call_target}"
    if opcode in _LOOPS:
        return "loop" if opcode == "while" else opcode
    if opcode in ("copy-start", "async-start", "copy"):
        return "copy"
    return "matrix product" if operation.flops else "vector operation"


def grouped(
    rows: Iterable[OperationRow], key: Callable[[OperationRow], str]
) -> tuple[TimeGroup, ...]:
    """The rows by what `key` says of them, the longest first; an empty key is `unattributed`."""
    together: dict[str, list[OperationRow]] = {}
    for row in rows:
        together.setdefault(key(row) or UNATTRIBUTED, []).append(row)
    groups = [_group(name, members) for name, members in together.items()]
    return tuple(sorted(groups, key=lambda g: -g.seconds))


def _group(key: str, rows: list[OperationRow]) -> TimeGroup:
    return TimeGroup(
        key=key,
        core_s=sum(r.core_s for r in rows),
        waited_s=sum(r.waited_s for r in rows),
        flops=sum(r.flops or 0 for r in rows),
        hbm_bytes=sum(r.hbm_bytes or 0 for r in rows),
        count=len(rows),
    )
