"""How a compiler packs buffers into one heap: its algorithms replayed, bounds, gaps, a proof."""

from vtpu.hbm.packing.algorithms import Algorithm, pack
from vtpu.hbm.packing.bounds import (
    Bound,
    Gap,
    aligned_bound,
    block_bound,
    gaps,
    live_bound,
    live_bytes,
    tops,
)
from vtpu.hbm.packing.checker import Violation, violations
from vtpu.hbm.packing.detect import Detection, detect, which_algorithms
from vtpu.hbm.packing.exact import ExactPacking, pack_exactly
from vtpu.hbm.packing.problem import Event, Interval, Kind, Packing, Trace, intervals
from vtpu.hbm.packing.window import Window, peak_window

__all__ = [
    "Algorithm",
    "Bound",
    "Detection",
    "Event",
    "ExactPacking",
    "Gap",
    "Interval",
    "Kind",
    "Packing",
    "Trace",
    "Violation",
    "Window",
    "aligned_bound",
    "block_bound",
    "detect",
    "gaps",
    "intervals",
    "live_bound",
    "live_bytes",
    "pack",
    "pack_exactly",
    "peak_window",
    "tops",
    "violations",
    "which_algorithms",
]
