"""What the instructions of a compiled program have to do: FLOPs, operations, bytes, transfers."""

from vtpu.program.work.amounts import MatrixProduct, Payload, Transfer, Work
from vtpu.program.work.instructions import is_collective, work_of

__all__ = ["MatrixProduct", "Payload", "Transfer", "Work", "is_collective", "work_of"]
