"""What a module alone tells of memory, without a buffer assignment: its values and their bytes.

Nothing here is an allocation: which values share memory, and when, only the compiler knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vtpu.analysis.program.argument_roles import Argument, Role, judge_roles
from vtpu.analysis.program.sources import source_of
from vtpu.analysis.source_lines import SourceLine, UserLines
from vtpu.program.memory import MemorySpace
from vtpu.program.modules import Instruction, Module
from vtpu.program.op_names import layer_of
from vtpu.program.shapes import ArrayShape, Shape, leaves

_NO_VALUES = {"parameter", "tuple", "get-tuple-element", "bitcast", "constant", "iota", "while",
              "conditional", "call", "optimization-barrier", "after-all"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An array of a module. `bytes` with the padding of the tiles that its layout names, if any."""

    name: str
    opcode: str
    shape: ArrayShape
    bytes: int
    padding_bytes: int
    role: Role | None
    layer: str
    line: SourceLine


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleValues:
    """The values of a module. `has_tiles`: layouts say how arrays are padded.

    `donated_bytes`: of arguments whose memory results reuse. Values in other memories than HBM are
    left out.
    """

    module: str
    is_scheduled: bool
    has_tiles: bool
    instructions: int
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    largest: tuple[Value, ...]
    donated_bytes: int

    @property
    def argument_bytes(self) -> int:
        """Bytes of all arguments."""
        return sum(v.bytes for v in self.arguments)

    @property
    def result_bytes(self) -> int:
        """Bytes of all results."""
        return sum(v.bytes for v in self.results)


def module_values(module: Module, lines: UserLines | None = None) -> ModuleValues:
    """The arguments, results and inner values of a module, each group largest first."""
    describe = _Describer(module, lines or UserLines())
    result = module.result()
    inner = (i for _, i in module.program_order() if i.opcode not in _NO_VALUES)
    values = [v for i in inner for v in describe(i)]
    arguments = [v for n, p in enumerate(module.parameters()) for v in describe.argument(n, p)]
    results = describe(result) if result else ()
    return ModuleValues(
        module=module.name,
        is_scheduled=module.is_scheduled,
        has_tiles=any(v.shape.layout.tiles for v in (*values, *arguments, *results)),
        instructions=len(module.by_id),
        arguments=_sorted(arguments),
        results=_sorted(results),
        largest=_sorted(values),
        donated_bytes=_donated(module),
    )


def _sorted(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(sorted(values, key=lambda v: (-v.bytes, v.name)))


def _donated(module: Module) -> int:
    parameters = module.parameters()
    donated = {a.parameter for a in module.aliases if a.parameter < len(parameters)}
    return sum(s.padded_bytes for n in donated for s in _arrays(parameters[n].shape))


def _arrays(shape: Shape) -> list[ArrayShape]:
    return [leaf for _, leaf in leaves(shape) if isinstance(leaf, ArrayShape) and _is_in_hbm(leaf)]


def _is_in_hbm(shape: ArrayShape) -> bool:
    return shape.layout.memory_space == MemorySpace.HBM


class _Describer:
    def __init__(self, module: Module, lines: UserLines) -> None:
        self._module, self._lines = module, lines
        donated = {a.parameter for a in module.aliases}
        self._roles = judge_roles(
            [
                Argument(p.op_name or p.name, p.shape, n in donated)
                for n, p in enumerate(module.parameters())
            ]
        )

    def __call__(self, instruction: Instruction) -> tuple[Value, ...]:
        return self._values(instruction, instruction.name, None)

    def argument(self, number: int, parameter: Instruction) -> tuple[Value, ...]:
        return self._values(parameter, parameter.op_name or parameter.name, self._roles[number])

    def _values(self, found: Instruction, name: str, role: Role | None) -> tuple[Value, ...]:
        shapes = _arrays(found.shape)
        if not shapes:
            return ()
        source = source_of(self._module, found)
        line = self._lines.line(source.frames)
        layer = "" if role else layer_of(source.op_name)
        return tuple(
            Value(
                name=name,
                opcode=found.opcode,
                shape=shape,
                bytes=shape.padded_bytes,
                padding_bytes=shape.padded_bytes - shape.logical_bytes,
                role=role,
                layer=layer,
                line=line,
            )
            for shape in shapes
        )
