"""How the arguments of a program that rules look at lie on its devices."""

from __future__ import annotations

from dataclasses import replace

from vtpu.analysis.program.spread import Spread, spreads_of
from vtpu.analysis.run.definitions import definition_of
from vtpu.analysis.source.meshes import mesh_axes
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.findings.subjects import ProgramSubject


def spreads(subject: ProgramSubject) -> tuple[Spread, ...]:
    """The arguments in HBM with their shardings, largest first; none on one device."""
    memory = subject.report.memory
    hbm = subject.report.usage.hbm if subject.report.usage else None
    if memory is None or hbm is None:
        return ()
    found = spreads_of(memory.module, memory.assignment, hbm, num_devices(subject))
    axis = axis_in_source(subject)
    return tuple(_with_axis(spread, axis) for spread in found) if axis else found


def _with_axis(spread: Spread, axis: str) -> Spread:
    """An array that is whole, with the one axis of the mesh where the program does not name it."""
    if spread.free_axes is not None or spread.sharding.pieces > 1:
        return spread
    return replace(spread, free_axes=((axis, spread.copies),))


def axis_in_source(subject: ProgramSubject) -> str:
    """The name of the mesh's axis, where the user's file makes one mesh with one axis; else empty."""
    line = line_of(subject)
    file = subject.files.get(line.file) if line.line else None
    axes = mesh_axes(file) if file else ()
    return axes[0] if len(axes) == 1 else ""


def line_of(subject: ProgramSubject) -> SourceLine:
    """The user's line that had a program compiled, else the first line of its function."""
    defined = definition_of(subject.record) if subject.record else None
    return subject.line or defined or UNKNOWN_LINE


def num_devices(subject: ProgramSubject) -> int:
    """On how many devices a program runs, as far as its options say."""
    return subject.report.origin.num_devices or 1


def is_tight(subject: ProgramSubject) -> bool:
    """Whether a program needs so much of HBM that what could be elsewhere should be."""
    need, limit = subject.report.need_bytes, subject.limit_bytes
    return bool(need and limit and need > _TIGHT * limit)


_TIGHT = 0.6
