"""Which arguments of a program it updates: a result is the argument, changed element by element.

`params - 0.1 * grads` is an update of `params`, also in a loop that hands it on, and so is a cache into which
a row is written. A gradient with weight decay, `grad + 0.1 * params`, is none: what the backward pass
computes with an argument is no new value of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from vtpu.analysis.program.prefetches import whole_of
from vtpu.program.modules import Instruction, Module
from vtpu.program.op_names import Phase, phase_of
from vtpu.program.shapes import ArrayShape, Shape, element_at, leaves

_ELEMENTWISE = {
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "select", "clamp", "negate",
    "abs", "sqrt", "rsqrt", "exponential", "log", "tanh", "logistic", "sign", "floor", "ceil", "and", "or",
    "xor", "shift-left", "shift-right-logical", "remainder",
}  # fmt: skip
_WRITES = {"dynamic-update-slice", "scatter"}
_SAME = {"bitcast", "copy", "convert", "reshape", "reduce-precision", "all-reduce", "opt-barrier"}
_BACKWARD = (Phase.BACKWARD, Phase.RECOMPUTED)

Index = tuple[int, ...]


def updated_parameters(module: Module) -> frozenset[int]:
    """The numbers of the entry parameters of which a result of the same shape is an update."""
    root = module.result()
    if root is None:
        return frozenset()
    walk = _Walk(module)
    arrays = [(index, s) for index, s in leaves(root.shape) if isinstance(s, ArrayShape) and s.dims]
    return frozenset(
        number for index, shape in arrays for number in walk.updated(root, index, shape)
    )


class _Walk:
    """Goes back from results to what they are made of, element by element."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._entry = {p.id: n for n, p in enumerate(module.parameters())}
        self._callers: dict[int, list[Instruction]] = defaultdict(list)
        self._home: dict[int, int] = {}
        for computation in module.computations.values():
            for instruction in computation.instructions:
                self._home[instruction.id] = computation.id
                for called in instruction.called:
                    self._callers[called].append(instruction)

    def updated(self, root: Instruction, index: Index, shape: ArrayShape) -> set[int]:
        """The parameters of an array's shape that it is an update of."""
        found: set[int] = set()
        waiting: list[tuple[Instruction, Index, bool]] = [(root, index, False)]
        seen = {(root.id, index, False)}
        for instruction, at, is_changed in waiting:
            if instruction.id in self._entry:
                if is_changed and _is_like(instruction.shape, shape):
                    found.add(self._entry[instruction.id])
                continue
            changes = is_changed or _changes(instruction)
            for number, element in self._behind(instruction, at, shape):
                step = (number, element, changes)
                operand = self._module.by_id.get(number)
                if operand is not None and step not in seen:
                    seen.add(step)
                    waiting.append((operand, element, changes))
        return found

    def _behind(
        self, instruction: Instruction, index: Index, shape: ArrayShape
    ) -> Iterator[tuple[int, Index]]:
        """What an element of a value is made of, with the same dimensions."""
        operands = instruction.operands
        if moved := self._moved(instruction, index):
            yield moved
            return
        match instruction.opcode:
            case "fusion" | "call" | "conditional":
                yield from ((root, index) for root in self._roots(instruction))
            case "while":
                yield operands[0], index
                yield from ((root, index) for root in self._roots(instruction)[:1])
            case "parameter":
                yield from self._given(instruction, index)
            case opcode if opcode in _WRITES or opcode in _SAME:
                yield operands[0], index
            case opcode if opcode in _ELEMENTWISE:
                yield from ((o, ()) for o in operands if self._has_dims(o, shape))
            case _:
                return

    def _moved(self, instruction: Instruction, index: Index) -> tuple[int, Index] | None:
        """The element that one is, elsewhere or in another tuple; None: it is computed."""
        operands = instruction.operands
        match instruction.opcode:
            case "get-tuple-element":
                return operands[0], (instruction.tuple_index or 0, *index)
            case "tuple" if index and index[0] < len(operands):
                return operands[index[0]], index[1:]
            case "copy-start":  # of (copy, original, context)
                return operands[0], index[1:]
            case "copy-done":
                return operands[0], (0, *index)
            case "custom-call" if whole := whole_of(self._module, instruction):
                return whole.id, index
            case _:
                return None

    def _roots(self, instruction: Instruction) -> list[int]:
        bodies = (self._module.computations.get(number) for number in instruction.called)
        return [body.root for body in bodies if body]

    def _given(self, parameter: Instruction, index: Index) -> Iterator[tuple[int, Index]]:
        """What the callers of a parameter's computation hand in; of a loop also what it hands on."""
        number = parameter.parameter_number or 0
        for caller in self._callers[self._home[parameter.id]]:
            if caller.opcode == "while":
                yield caller.operands[0], index
                yield from ((root, index) for root in self._roots(caller)[:1])
            elif caller.opcode == "conditional":
                branch = caller.called.index(self._home[parameter.id])
                if branch + 1 < len(caller.operands):
                    yield caller.operands[branch + 1], index
            elif number < len(caller.operands):
                yield caller.operands[number], index

    def _has_dims(self, number: int, shape: ArrayShape) -> bool:
        operand = self._module.by_id.get(number)
        return operand is not None and isinstance(operand.shape, ArrayShape) and operand.shape.dims == shape.dims  # fmt: skip


def _changes(instruction: Instruction) -> bool:
    if instruction.opcode in _WRITES:
        return True
    is_arithmetic = instruction.opcode in _ELEMENTWISE and bool(instruction.op_name)
    return is_arithmetic and phase_of(instruction.op_name) not in _BACKWARD


def _is_like(parameter: Shape, shape: ArrayShape) -> bool:
    found = element_at(parameter, ())
    same = isinstance(found, ArrayShape) and found.dims == shape.dims
    return same and isinstance(found, ArrayShape) and found.element_type is shape.element_type
