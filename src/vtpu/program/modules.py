"""A compiled module: computations, their instructions in the order in which they run, and places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from vtpu.program.locations import Frame
from vtpu.program.operations import (
    Collective,
    ConvolutionDimensions,
    DotDimensions,
    Precision,
    WindowDimension,
)
from vtpu.program.shapes import Shape
from vtpu.program.shardings import Sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """An HLO instruction. `id` is unique in the module; `called` are ids of computations.

    `op_name` is JAX's path of the operation, `jit(step)/jvp(layer_3)/dot_general`; of an entry
    parameter the user's name of the argument, `params['w']`. `stack` numbers the module's stacks;
    older modules have a `place` of their own instead.

    `value` is that of a constant which is one integer; `elements` are those of one that is a small array
    of integers, row by row, in bytes. `direction` is that of a comparison, `attributes` are JSON that
    the compiler's back end keeps with it (`backend_config`). `fusion_kind` is XLA's word for a fusion:
    `kLoop`, `kInput`, `kOutput` or `kCustom`.
    """

    id: int
    name: str
    opcode: str
    shape: Shape
    operands: tuple[int, ...] = ()
    called: tuple[int, ...] = ()
    op_name: str = ""
    stack: int = 0
    parameter_number: int | None = None
    tuple_index: int | None = None
    custom_call_target: str = ""
    place: Frame | None = None
    dimensions: tuple[int, ...] = ()
    window: tuple[WindowDimension, ...] = ()
    dot: DotDimensions | None = None
    convolution: ConvolutionDimensions | None = None
    collective: Collective | None = None
    value: int | None = None
    elements: bytes = field(default=b"", repr=False)
    direction: str = ""
    rendezvous: Mapping[str, str] = field(default_factory=dict[str, str])
    precision: Precision = Precision.DEFAULT
    attributes: bytes = field(default=b"", repr=False)
    fusion_kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """A computation. `instructions` stand in the compiler's schedule where there is one, which has
    every instruction before its users in any case.
    """

    id: int
    name: str
    instructions: tuple[Instruction, ...]
    root: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """An output that reuses a parameter's memory: where in the result, which parameter, where in it."""

    output: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module. `stacks[n]` is the stack numbered n, innermost frame first; number 0 is empty.

    `devices` are ids of the devices that it runs on, replica by replica, in each by partition: the
    numbers of `Collective` are places in it. Empty where the module does not say. The shardings are those
    of the flattened arguments and results, None of one that is not known; empty where the module was
    partitioned for no mesh.
    """

    name: str
    entry: int
    computations: Mapping[int, Computation]
    aliases: tuple[Alias, ...] = ()
    stacks: tuple[tuple[Frame, ...], ...] = ((),)
    is_scheduled: bool = False
    devices: tuple[int, ...] = ()
    parameter_shardings: tuple[Sharding | None, ...] = ()
    result_shardings: tuple[Sharding | None, ...] = ()
    by_id: Mapping[int, Instruction] = field(init=False, repr=False, compare=False)
    callers: Mapping[int, Instruction] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Makes the indices: instructions by id, and what calls the computation that one stands in."""
        computations = self.computations.values()
        found = {i.id: i for c in computations for i in c.instructions}
        object.__setattr__(self, "by_id", found)
        calls = {number: i for i in found.values() for number in i.called}
        callers = {i.id: calls[c.id] for c in computations if c.id in calls for i in c.instructions}
        object.__setattr__(self, "callers", callers)

    def frames(self, instruction: Instruction) -> tuple[Frame, ...]:
        """The stack of an instruction, innermost frame first; empty when it has none."""
        if 0 < instruction.stack < len(self.stacks):
            return self.stacks[instruction.stack]
        return (instruction.place,) if instruction.place else ()

    def parameters(self) -> tuple[Instruction, ...]:
        """The parameters of the entry computation, by number."""
        found = [i for i in self._entry_instructions() if i.parameter_number is not None]
        return tuple(sorted(found, key=lambda i: i.parameter_number or 0))

    def result(self) -> Instruction | None:
        """The instruction whose value the module returns."""
        computation = self.computations.get(self.entry)
        return self.by_id.get(computation.root) if computation else None

    def _entry_instructions(self) -> tuple[Instruction, ...]:
        computation = self.computations.get(self.entry)
        return computation.instructions if computation else ()

    def program_order(self) -> tuple[tuple[Computation, Instruction], ...]:
        """Every instruction in the order in which the chip comes to it first.

        The computations that an instruction calls stand before it, as XLA's `HloLiveRange` has it;
        the body of a loop stands once. Bodies of fusions, reducers and the like are left out: they
        are no steps of their own.
        """
        return tuple(self._walk(self.entry, set()))

    def _walk(self, number: int, seen: set[int]) -> Iterator[tuple[Computation, Instruction]]:
        computation = self.computations.get(number)
        if computation is None or number in seen:
            return
        seen.add(number)
        for instruction in computation.instructions:
            if instruction.opcode in _CONTROL_FLOW:
                # of a loop the body is named first, but the condition runs first
                is_loop = instruction.opcode == "while"
                for called in reversed(instruction.called) if is_loop else instruction.called:
                    yield from self._walk(called, seen)
            yield computation, instruction


_CONTROL_FLOW = {"while", "conditional", "call", "async-start"}
