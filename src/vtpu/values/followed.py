"""What the native core follows, as this room sees it: values, and the launches that made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Value(Protocol):
    """The contents of one array on one device: known, pending or unknown."""

    @property
    def is_pending(self) -> bool:
        """Whether executing a program again would give it."""
        ...

    @property
    def why(self) -> int:
        """The number of the reason why it is unknown, else 0."""
        ...

    @property
    def element_type(self) -> int:
        """As the ABI numbers them."""
        ...

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape on the device."""
        ...

    def contents(self) -> Any:
        """A buffer of its bytes, row-major; None unless it is known."""
        ...

    def launch(self) -> Launch | None:
        """The execution whose result it is; None when it came from the host."""
        ...

    def place(self) -> tuple[int, int]:
        """Of a result: the logical device and the number of the output."""
        ...

    def know(self, data: Any) -> None:
        """Makes it known, unless it was decided before. `data`: a buffer of its bytes."""
        ...

    def know_as(self, other: Any) -> None:
        """Makes it known with the contents of another value."""
        ...

    def give_up(self, why: int) -> None:
        """Makes it unknown, unless it was decided before."""
        ...


class Launch(Protocol):
    """An execution with what it was given, which it remembers while this object lives."""

    @property
    def number(self) -> int:
        """Later executions have higher numbers."""
        ...

    @property
    def program(self) -> int:
        """The number of the program."""
        ...

    @property
    def num_devices(self) -> int:
        """The devices of the program on all hosts."""
        ...

    @property
    def logical_ids(self) -> tuple[int, ...]:
        """Those on this host, numbered replica * partitions + partition."""
        ...

    def arguments(self, indices: Sequence[int]) -> list[list[Value | None]]:
        """For each index the values of that argument on this host's devices; empty: forgotten."""
        ...

    def results(self, output: int) -> list[Value | None]:
        """The values of an output on all devices; None where nobody needs it."""
        ...
