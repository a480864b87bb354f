"""What an operation keeps busy, and so what can bound it."""

from __future__ import annotations

from enum import StrEnum


class Resource(StrEnum):
    """A part of the machine with a rate of its own."""

    MXU = "MXU"  # matrix units
    VPU = "VPU"  # vector units, transcendental functions and permutations included
    HBM = "HBM"
    VMEM = "VMEM"
    ICI = "ICI"  # links between chips of a slice
    DCN = "DCN"  # network between slices
    HOST_LINK = "PCIe"  # between a chip and its host
    ISSUE = "issue"  # starting operations: descriptors, barriers, loops
    COMPILER = "cycles"  # the compiler's own count, which does not say of what
