"""How an argument or a result of a program is spread over the devices that run it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """Into how many `parts` each dimension of an array is cut; all that is left of devices have copies.

    `axes` are names of the mesh's axes that cut each dimension, `mesh` all axes with their sizes. They
    are None and empty where the compiler did not keep names, `mesh` also of an array that is whole.
    """

    parts: tuple[int, ...]
    axes: tuple[tuple[str, ...], ...] | None = None
    mesh: tuple[tuple[str, int], ...] = ()

    @property
    def pieces(self) -> int:
        """The number of different pieces."""
        return prod(self.parts)

    @property
    def used_axes(self) -> frozenset[str]:
        """The axes that cut some dimension."""
        return frozenset(name for names in self.axes or () for name in names)
