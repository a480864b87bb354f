"""What of a program's arguments and results lies on one device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from vtpu.analysis.program.argument_roles import Argument, Role, judge_roles
from vtpu.program.modules import Module
from vtpu.program.shapes import ArrayShape, Shape, leaves
from vtpu.program.shardings import Sharding


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """An argument or result: its shape on one device, and into how many parts each dimension is cut.

    `parts` None where the program does not say. `name` and `role` of an argument; of a result empty.
    """

    number: int
    shape: ArrayShape
    parts: tuple[int, ...] | None
    name: str = ""
    role: Role = Role.OUTPUT

    @property
    def whole(self) -> tuple[int, ...] | None:
        """The dimensions over all devices; rounded up where parts are unequal."""
        if self.parts is None:
            return None
        return tuple(n * p for n, p in zip(self.shape.dims, self.parts, strict=True))

    @property
    def devices(self) -> int:
        """Over how many devices it is cut."""
        return prod(self.parts or ())


def pieces_of(module: Module) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """The arguments and the results that are arrays, by number."""
    parameters = module.parameters()
    result = module.result()
    outputs = [shape for _, shape in leaves(result.shape)] if result else []
    donated = {alias.parameter for alias in module.aliases}
    roles = judge_roles(
        [Argument(p.op_name or p.name, p.shape, n in donated) for n, p in enumerate(parameters)]
    )
    arguments = (
        _piece(n, p.shape, module.parameter_shardings, p.op_name or p.name, role)
        for n, (p, role) in enumerate(zip(parameters, roles, strict=True))
    )
    results = (_piece(n, shape, module.result_shardings) for n, shape in enumerate(outputs))
    return tuple(a for a in arguments if a), tuple(r for r in results if r)


def are_of_parameters(dims: Sequence[int], arguments: Iterable[Piece]) -> bool:
    """Whether an array of these dimensions may be a parameter or a gradient, of one layer perhaps.

    So it is when an argument that is no batch has them all, whole or on one device, in whatever order.
    """
    known = [a for a in arguments if a.role is not Role.BATCH]
    wanted = Counter(n for n in dims if n > 1)
    return any(
        not wanted - Counter(other) for a in known for other in (a.shape.dims, a.whole) if other
    )


def _piece(
    number: int,
    shape: Shape,
    shardings: Sequence[Sharding | None],
    name: str = "",
    role: Role = Role.OUTPUT,
) -> Piece | None:
    if not isinstance(shape, ArrayShape):
        return None
    sharding = shardings[number] if number < len(shardings) else None
    parts = sharding.parts if sharding else None
    return Piece(number=number, shape=shape, parts=parts, name=name, role=role)
