"""What the instructions of a compiled program have to do: FLOPs, operations, bytes, transfers."""

from vtpu.program.work.amounts import MatrixProduct, Payload, Transfer, Work
from vtpu.program.work.collectives import CollectivePart, Part, collective_in
from vtpu.program.work.instructions import work_of

__all__ = [
    "CollectivePart",
    "MatrixProduct",
    "Part",
    "Payload",
    "Transfer",
    "Work",
    "collective_in",
    "work_of",
]
