"""The memory of programs in a recording, put together from what the recording keeps of them."""

from __future__ import annotations

import zlib

from vtpu.program.locations import CANONICAL_FILE, SourceStacks
from vtpu.program.memory import BufferAssignment, MemoryStats, ProgramMemory
from vtpu.reading.buffer_assignment import find_assignment, read_assignment
from vtpu.reading.hlo_module import replace_stack_frames
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.wire import WireError
from vtpu.recording.recording import ProgramRecord, RunRecord

_NOTHING = BufferAssignment(buffers={}, allocations=())


def memory_of(program: ProgramRecord, run: RunRecord) -> ProgramMemory | None:
    """The memory of a recorded program; None when the recording holds no module of it.

    A program that did not compile has the module and the assignment that the compiler dumped before
    it gave up. What is missing or damaged is named in `problems`.
    """
    if not program.hlo:
        return None
    problems: list[str] = []
    try:
        hlo = zlib.decompress(program.hlo)
        module = read_wrapped_module(_with_places(hlo, program.locations))
        data = zlib.decompress(program.assignment) if program.assignment else find_assignment(hlo)
        assignment = read_assignment(data, module) if data else _NOTHING
    except (WireError, zlib.error):
        return None
    if not assignment.allocations:
        problems.append("the compiler left no buffer assignment of this program")
    return ProgramMemory(
        module=module,
        assignment=assignment,
        stats=None if program.error else _stats(program),
        limit_bytes=run.hbm_bytes,
        chip=run.devices[0].kind if run.devices else None,
        log=_text(program.log),
        error=program.error,
        problems=tuple(problems),
    )


def _with_places(hlo: bytes, locations: tuple[str, ...]) -> bytes:
    return replace_stack_frames(hlo, CANONICAL_FILE, SourceStacks(locations)) if locations else hlo


def _text(packed: bytes) -> str:
    return zlib.decompress(packed).decode(errors="replace") if packed else ""


def _stats(program: ProgramRecord) -> MemoryStats:
    return MemoryStats(
        argument_bytes=program.argument_bytes,
        output_bytes=program.output_bytes,
        alias_bytes=program.alias_bytes,
        temp_bytes=program.temp_field_bytes,
        heap_bytes=program.temp_bytes,
        generated_code_bytes=program.generated_code_bytes,
        host_argument_bytes=program.host_argument_bytes,
        host_output_bytes=program.host_output_bytes,
        host_alias_bytes=program.host_alias_bytes,
        host_temp_bytes=program.host_temp_bytes,
        peak_memory_field_bytes=program.peak_memory_field_bytes,
    )
