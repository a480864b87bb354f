"""Device memory with addresses: the virtual slice's arena, and models of allocators."""

from vtpu.hbm._arena import Arena, Block
from vtpu.hbm.allocator import Allocator, AllocatorName, Placed
from vtpu.hbm.bfc import Bfc
from vtpu.hbm.two_ended import (
    Compaction,
    End,
    Fit,
    Reservations,
    TpuAssumptions,
    TwoEndedArena,
)

__all__ = [
    "Allocator",
    "AllocatorName",
    "Arena",
    "Bfc",
    "Block",
    "Compaction",
    "End",
    "Fit",
    "Placed",
    "Reservations",
    "TpuAssumptions",
    "TwoEndedArena",
]
