"""A kernel for the TensorCore as its compiler has it: operations in blocks, and how they run over a grid.

Pallas writes a kernel as a function of a place in a grid and of one window for each operand and result.
The windows are copied between HBM and VMEM before and after, where they differ from those of the place
before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtpu.program.element_types import ElementType

#: An attribute: numbers, texts, and tuples of them; other attributes are their text.
Attribute = int | str | tuple["Attribute", ...]


@dataclass(frozen=True, slots=True)
class KernelType:
    """A type: an array's dimensions and element, and its memory when it is one; no dimensions: a scalar.

    `element` is None for what is no number (semaphores). `memory` is `vmem`, `smem`, `any`, …; a vector
    has none.
    """

    element: ElementType | None
    dims: tuple[int, ...] = ()
    memory: str = ""
    is_vector: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A result of an operation, or an argument of a block; numbered in its kernel."""

    id: int
    type: KernelType


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation by its name without a version: `arith.addf`, `tpu.matmul`, `scf.for`."""

    name: str
    operands: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    regions: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """Operations one after the other, and what they are given."""

    arguments: tuple[Value, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What of an operand or result a place in the grid sees: its size, and the function for where.

    Without a function it is seen as a whole and copied once; without a size too it stays where it is,
    and the kernel copies of it what it wants.
    """

    bounds: tuple[int, ...] = ()
    transform: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel. `body` has the places in the grid as its first arguments, then `scalar_prefetch` arrays
    of scalars, then a window for each further operand and each result, then scratch memory.

    `functions` are those that say where the windows are. `parallel` tells of each dimension of the grid
    whether its places may run in any order, and so on several cores.
    """

    name: str
    grid: tuple[int, ...]
    body: Block
    functions: Mapping[str, Block]
    windows: tuple[Window, ...] = ()
    scalar_prefetch: int = 0
    parallel: tuple[bool, ...] = ()
