"""XProf's memory viewer on the same dumps: its figures are in dumps/xprof.json, see scripts/xprof_peaks.py.

The dumps are of a scan over layers that fits, one that does not (both v5e), and of skip connections
on tpu7x and v4, with their file names shortened.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vtpu.analysis.program.live_ranges import find_occupants
from vtpu.analysis.program.memory import analyse_memory
from vtpu.program.memory import AllocationKind, MemorySpace, ProgramMemory
from vtpu.reading.buffer_assignment import find_assignment, read_assignment
from vtpu.reading.modules import read_wrapped_module

DUMPS = Path(__file__).parent / "dumps"
ORACLE = json.loads((DUMPS / "xprof.json").read_text())


def memory_of(name: str) -> ProgramMemory:
    data = (DUMPS / f"{name}.hlo.pb").read_bytes()
    module = read_wrapped_module(data)
    return ProgramMemory(module=module, assignment=read_assignment(find_assignment(data), module))


@pytest.mark.parametrize("name", ORACLE)
def test_the_peak_of_hbm_is_xprofs_and_what_it_does_not_count(name):
    hbm = analyse_memory(memory_of(name)).hbm
    not_counted = [
        item.bytes
        for item in hbm.at_peak()
        if item.occupant.kind is AllocationKind.LOCAL
        or (item.occupant.kind is AllocationKind.TEMP and not item.occupant.is_traced)
    ]
    assert hbm.peak_bytes - sum(not_counted) == ORACLE[name]["HBM"]["peak_bytes"]
    assert sum(not_counted) < 32 << 10


@pytest.mark.parametrize("name", ORACLE)
@pytest.mark.parametrize("space", [MemorySpace.HBM, MemorySpace.VMEM])
def test_what_is_set_aside_is_xprofs_and_what_is_local_to_fusions(name, space):
    usage = analyse_memory(memory_of(name)).space(space)
    local = usage.by_kind.get(AllocationKind.LOCAL, 0) if usage else 0
    assert (usage.total_bytes if usage else 0) - local == ORACLE[name][space.name]["total_bytes"]


@pytest.mark.parametrize("name", ORACLE)
def test_every_place_in_a_traced_heap_is_taken_once(name):
    """As the trace has it, before lives are trimmed where others begin."""
    traced = [
        o for o in find_occupants(memory_of(name)) if o.is_traced and o.color == MemorySpace.HBM
    ]
    for one in traced:
        for other in traced:
            is_later = one.start <= other.start <= one.end
            shares = one.offset < other.offset + other.size and other.offset < one.offset + one.size
            assert one is other or not (is_later and shares)
