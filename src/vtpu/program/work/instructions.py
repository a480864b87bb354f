"""The work of an instruction, from the module alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from vtpu.program.modules import Instruction, Module
from vtpu.program.work.amounts import (
    NOTHING,
    MatrixProduct,
    Payload,
    Work,
    added,
    added_spaces,
)
from vtpu.program.work.arithmetic import ops_of
from vtpu.program.work.collectives import CollectivePart, Part, collective_in, result_of
from vtpu.program.work.custom_calls import author_estimate, does_nothing, only_moves
from vtpu.program.work.matrix_products import product_of
from vtpu.program.work.traffic import padded_bytes, read_by, written_by
from vtpu.program.work.transfers import transfer_of

_NOTHING = {
    "add-dependency", "after-all", "bitcast", "call", "conditional", "constant", "domain",
    "get-dimension-size", "get-tuple-element", "opt-barrier", "parameter", "partition-id",
    "replica-id", "tuple", "while",
}  # fmt: skip


#: Counts the work of a kernel from its body; None for one that cannot be read.
KernelWork = Callable[[Instruction], Work | None]


def work_of(module: Module, instruction: Instruction, kernels: KernelWork | None = None) -> Work:
    """What an instruction does in one run.

    `kernels` is asked for the work of Pallas kernels (`vtpu.reading.kernel_bodies.kernel_works`);
    without an answer their authors' estimates count, and without these they are unknown.

    Loops, calls and conditionals do nothing of their own: what they call is counted as often as it
    runs. An asynchronous operation's work is that of its start.
    """
    opcode = instruction.opcode
    if opcode in _NOTHING or opcode.endswith(("-done", "-update")):
        return NOTHING
    if opcode in ("copy-start", "infeed", "outfeed", "recv", "send"):
        return _copy(module, instruction)
    if opcode == "async-start":
        return _asynchronous(module, instruction, kernels)
    if opcode == "custom-call":
        return _custom_call(module, instruction, kernels)
    part = collective_in(module, instruction)
    if part is None or part.part is Part.CONTINUED:
        return _computed(module, instruction)
    return NOTHING if part.part is Part.DONE else _collective(module, part)


def _computed(module: Module, instruction: Instruction) -> Work:
    products = tuple(_products(module, instruction))
    vector_ops, transcendentals = ops_of(module, instruction)
    return Work(
        flops=sum(p.flops for p in products),
        vector_ops=vector_ops,
        transcendentals=transcendentals,
        read=read_by(module, instruction),
        written=written_by(module, instruction),
        products=products,
    )


def _products(module: Module, instruction: Instruction) -> Iterator[MatrixProduct]:
    if product := product_of(module, instruction):
        yield product
    elif instruction.opcode == "fusion":
        for inner in module.computations[instruction.called[0]].instructions:
            yield from _products(module, inner)


def _copy(module: Module, instruction: Instruction) -> Work:
    transfer = transfer_of(module, instruction)
    if transfer is None:
        return NOTHING
    read, written = {transfer.source: transfer.bytes}, {transfer.target: transfer.bytes}
    return Work(read=read, written=written, transfers=(transfer,))


def _asynchronous(module: Module, instruction: Instruction, kernels: KernelWork | None) -> Work:
    computation = module.computations[instruction.called[0]]
    transfer = transfer_of(module, instruction)
    if transfer is None:
        parts = (work_of(module, inner, kernels) for inner in computation.instructions)
        return together(part for part in parts if part is not NOTHING)
    root = module.by_id[computation.root]
    read, written = read_by(module, root), written_by(module, root)
    return Work(read=read, written=written, transfers=(transfer,))


def _custom_call(module: Module, instruction: Instruction, kernels: KernelWork | None) -> Work:
    if does_nothing(instruction.custom_call_target):
        return NOTHING
    if only_moves(instruction.custom_call_target):
        written = written_by(module, instruction)
        return Work(read=read_by(module, instruction), written=written)
    if kernels and (found := kernels(instruction)) and not found.is_unknown:
        return found
    estimate = author_estimate(instruction.attributes)
    known = estimate is not None
    return Work(
        flops=estimate["flops"] if known else None,
        vector_ops=0 if known else None,
        transcendentals=estimate["transcendentals"] if known else None,
        read=read_by(module, instruction),
        written=written_by(module, instruction),
    )


def _collective(module: Module, part: CollectivePart) -> Work:
    """Operands are read and results written, whatever is between."""
    collective = part.collective
    vector_ops, transcendentals = ops_of(module, replace(collective, shape=result_of(collective)))
    result = replace(collective, shape=part.result)
    operand_bytes = sum(padded_bytes(module.by_id[o].shape) for o in collective.operands)
    return Work(
        vector_ops=vector_ops,
        transcendentals=transcendentals,
        read=read_by(module, result),
        written=written_by(module, result),
        payload=Payload(operand_bytes, padded_bytes(part.result)),
    )


def together(works: Iterable[Work]) -> Work:
    """The sum of what several instructions do."""
    parts = tuple(works)
    payloads = [w.payload for w in parts if w.payload]
    return Work(
        flops=added(w.flops for w in parts),
        vector_ops=added(w.vector_ops for w in parts),
        transcendentals=added(w.transcendentals for w in parts),
        read=added_spaces(w.read for w in parts),
        written=added_spaces(w.written for w in parts),
        products=tuple(p for w in parts for p in w.products),
        transfers=tuple(t for w in parts for t in w.transfers),
        payload=_payload(payloads) if payloads else None,
        is_bound=any(w.is_bound for w in parts),
    )


def _payload(parts: list[Payload]) -> Payload:
    return Payload(sum(p.operand_bytes for p in parts), sum(p.result_bytes for p in parts))
