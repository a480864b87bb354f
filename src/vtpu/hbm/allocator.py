"""What every model of an allocator answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol, TypeVar


class AllocatorName(StrEnum):
    """Which model."""

    TPU = "tpu"  # the TPU runtime
    BFC = "bfc"  # XLA's GPU client as JAX sets it
    GROWTH = "growth"  # TensorFlow with allow_growth


class Placed(Protocol):
    """A block that is in use. Bytes."""

    @property
    def address(self) -> int:
        """Where it begins."""
        ...

    @property
    def size(self) -> int:
        """How much it takes, rounding included."""
        ...


B = TypeVar("B", bound=Placed)


class Allocator(Protocol[B]):
    """Memory of a chip with addresses. All sizes are bytes, all results exact.

    A model of one allocator: it holds no memory, only what is where. Nothing is retried by the one who
    asks: what the allocator does about a request that does not fit, it does by itself.
    """

    def allocate(self, size: int) -> B | None:
        """A block of at least `size` > 0 bytes, or None when there is no room for it."""
        ...

    def free(self, block: B) -> None:
        """Gives a block back; once."""
        ...

    def reserve(self, size: int, program: int = 0) -> bool:
        """Whether the temporaries of a run of `program` find `size` > 0 bytes."""
        ...

    @property
    def limit(self) -> int:
        """The most that can ever be in use and reserved."""
        ...

    @property
    def in_use(self) -> int:
        """Bytes in blocks that are in use."""
        ...

    @property
    def reserved(self) -> int:
        """Bytes that programs keep between their runs."""
        ...

    @property
    def largest_free(self) -> int:
        """The largest block that would be given now without moving anything."""
        ...

    @property
    def reservable(self) -> int:
        """The most that a program could reserve now without moving anything."""
        ...

    @property
    def pool_bytes(self) -> int:
        """Bytes taken from the chip, used or not."""
        ...
