"""How the arguments and results of a program are spread over its devices."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from vtpu.analysis.program.argument_roles import Argument, Role, judge_roles
from vtpu.program.modules import Module
from vtpu.program.shapes import ArrayShape, Shape, leaves
from vtpu.reading.shardings import parts_along, read_shardings
from vtpu.reading.wire import WireError
from vtpu.recording.recording import ProgramRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
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


def spreads_of(
    module: Module, record: ProgramRecord | None
) -> tuple[tuple[Spread, ...], tuple[Spread, ...]]:
    """The arguments and the results that are arrays, by number."""
    parameters = module.parameters()
    result = module.result()
    outputs = [shape for _, shape in leaves(result.shape)] if result else []
    cuts, output_cuts = _shardings(record)
    donated = {alias.parameter for alias in module.aliases}
    roles = judge_roles(
        [Argument(p.op_name or p.name, p.shape, n in donated) for n, p in enumerate(parameters)]
    )
    arguments = (
        _spread(n, p.shape, cuts, p.op_name or p.name, role)
        for n, (p, role) in enumerate(zip(parameters, roles, strict=True))
    )
    results = (_spread(n, shape, output_cuts) for n, shape in enumerate(outputs))
    return tuple(a for a in arguments if a), tuple(r for r in results if r)


def are_of_parameters(dims: Sequence[int], arguments: Iterable[Spread]) -> bool:
    """Whether an array of these dimensions may be a parameter or a gradient, of one layer perhaps.

    So it is when an argument that is no batch has them all, whole or on one device, in whatever order.
    """
    known = [a for a in arguments if a.role is not Role.BATCH]
    wanted = Counter(n for n in dims if n > 1)
    return any(
        not wanted - Counter(other) for a in known for other in (a.shape.dims, a.whole) if other
    )


def _spread(
    number: int, shape: Shape, cuts: tuple[bytes, ...], name: str = "", role: Role = Role.OUTPUT
) -> Spread | None:
    if not isinstance(shape, ArrayShape):
        return None
    parts = _parts(cuts[number], len(shape.dims)) if number < len(cuts) else None
    return Spread(number=number, shape=shape, parts=parts, name=name, role=role)


def _parts(cut: bytes, rank: int) -> tuple[int, ...] | None:
    try:
        return parts_along(cut, rank)
    except WireError:
        return None


def _shardings(record: ProgramRecord | None) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    if record is None or not record.hlo:
        return (), ()
    try:
        return read_shardings(zlib.decompress(record.hlo))
    except (WireError, zlib.error):
        return (), ()
