"""The user's lines at which a compiled program hands values to the host: `jax.debug.print` and callbacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vtpu.analysis.source_lines import SourceLine, UserLines
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.modules import Instruction
from vtpu.program.shapes import ArrayShape, leaves

_SENDS = ("send", "custom-call", "outfeed")
_NAMES = ("debug_print", "debug_callback", "pure_callback", "io_callback")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCall:
    """A line that calls the host. `primitive` is JAX's name for how, `bytes` are those of the largest value."""

    line: SourceLine
    primitive: str
    bytes: int


def host_calls(programs: Iterable[ProgramSubject]) -> list[HostCall]:
    """The calls of some programs, one of each line, those with most bytes first."""
    found: dict[SourceLine, HostCall] = {}
    for call in (c for p in programs for c in _of_program(p)):
        if call.bytes >= (found[call.line].bytes if call.line in found else 0):
            found[call.line] = call
    return sorted(found.values(), key=lambda c: (-c.bytes, c.line))


def _of_program(program: ProgramSubject) -> Iterable[HostCall]:
    module = program.module
    lines = program.report.lines or UserLines()
    for instruction in module.by_id.values() if module else ():
        primitive = instruction.op_name.rpartition("/")[2]
        if module and instruction.opcode in _SENDS and primitive in _NAMES:
            line = lines.line(module.frames(instruction))
            yield HostCall(line=line, primitive=primitive, bytes=_bytes(instruction))


def _bytes(instruction: Instruction) -> int:
    arrays = (a for _, a in leaves(instruction.shape) if isinstance(a, ArrayShape))
    return max((a.logical_bytes for a in arrays), default=0)
