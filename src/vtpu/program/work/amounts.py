"""Amounts of work: what an instruction computes, reads, writes and moves in one run.

Bytes are padded and by memory space, as `MemorySpace` numbers them (a space without a name there keeps
its number). A multiply-add is two floating-point operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from vtpu.program.element_types import ElementType

_COMPLEX = (ElementType.C64, ElementType.C128)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixProduct:
    """`batch` products of a matrix of `m` rows and `k` columns with one of `k` and `n`.

    A convolution is written so too: `m` are its places (batch and spatial), `n` its output features,
    `k` what is summed for one result. Where a window reaches over the edge or into holes of a dilation,
    `k` is rounded up from the mean and `multiply_adds` counts only what meets an element.

    `passes`: how often the matrix units go over it. They multiply bfloat16: products of float32 take 3
    passes at `high` and 6 at `highest` precision (`jax.lax.Precision`).
    """

    batch: int
    m: int
    n: int
    k: int
    multiply_adds: int
    lhs: ElementType
    rhs: ElementType
    result: ElementType
    passes: int = 1

    @property
    def flops(self) -> int:
        """Two for a multiply-add; a complex one has four real ones."""
        return self.multiply_adds * (8 if self.lhs in _COMPLEX or self.rhs in _COMPLEX else 2)


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes that a copy engine moves from one memory space to another while the core goes on."""

    source: int
    target: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Payload:
    """What a collective takes in and gives out on one device, in bytes. Links are another matter."""

    operand_bytes: int
    result_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What an instruction does in one run.

    `flops` are those of matrix products, `vector_ops` one for an element of anything else that
    computes, `transcendentals` one for an element of `exponential`, `tanh` and the like. They are None
    where they cannot be known: a kernel whose author gave no estimate and whose body cannot be read.
    `is_bound` tells that the figures are at most: a kernel that may skip blocks.
    """

    flops: int | None = 0
    vector_ops: int | None = 0
    transcendentals: int | None = 0
    read: Mapping[int, int] = field(default_factory=dict[int, int])
    written: Mapping[int, int] = field(default_factory=dict[int, int])
    products: tuple[MatrixProduct, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    payload: Payload | None = None
    is_bound: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether it computes something of which nothing says how much."""
        return self.flops is None

    def moved(self, space: int) -> int:
        """Bytes read from and written to a memory space."""
        return self.read.get(space, 0) + self.written.get(space, 0)


NOTHING = Work()


def added(amounts: Iterable[int | None]) -> int | None:
    """The sum; None when a part is unknown."""
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def added_spaces(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Bytes by memory space, summed; spaces with none are left out."""
    total: dict[int, int] = {}
    for part in parts:
        for space, size in part.items():
            if size:
                total[space] = total.get(space, 0) + size
    return total
