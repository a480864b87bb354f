"""What the forward pass leaves in HBM for the backward pass, with the calls that lead there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.sources import source_of
from vtpu.analysis.source.files import SourceFile, SourceFiles
from vtpu.analysis.source_lines import UserLines
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.locations import Frame
from vtpu.program.op_names import Phase, phase_of

_LEAST_SHARE = 0.02  # of the program's need: what less is saved is not worth a compile


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """An activation that is alive at the peak. `frames` are those of the user's, innermost first.

    `op_name` is JAX's path of the operation that makes it, `dims` its dimensions.
    """

    bytes: int
    op_name: str
    dims: tuple[int, ...]
    frames: tuple[Frame, ...]

    @property
    def place(self) -> str:
        """The line that it is made in; empty where that is not known."""
        return f"{self.frames[0].file}:{self.frames[0].line}" if self.frames else ""

    @property
    def is_product(self) -> bool:
        """Whether a product makes it, which a policy like `dots_saveable` keeps."""
        last = self.op_name.rpartition("/")[2]
        return last.startswith(("dot_general", "conv_general"))


def saved_activations(program: ProgramSubject) -> tuple[Saved, ...]:
    """The activations of the forward pass that are alive at the peak of HBM, largest first.

    Empty without a backward pass, and where they are too little to matter.
    """
    usage, module = program.report.usage, program.module
    if usage is None or usage.hbm is None or module is None or not _has_gradient(program):
        return ()
    lines = program.report.lines or UserLines()
    by_name = {i.name: i for i in module.by_id.values()}
    found: list[Saved] = []
    for item in usage.hbm.at_peak():
        instruction = by_name.get(item.name)
        if item.role is not Role.FORWARD or instruction is None:
            continue
        frames = lines.own_frames(source_of(module, instruction).frames)
        dims = item.shape.dims if item.shape else ()
        found.append(Saved(bytes=item.bytes, op_name=item.op_name, dims=dims, frames=frames))
    is_enough = sum(s.bytes for s in found) >= _LEAST_SHARE * usage.hbm.total_bytes
    return tuple(found) if is_enough else ()


def has_remat(program: ProgramSubject) -> bool:
    """Whether the program computes something again in its backward pass."""
    instructions = program.module.by_id.values() if program.module else ()
    return any(phase_of(i.op_name) is Phase.RECOMPUTED for i in instructions)


def recomputed_s(program: ProgramSubject) -> float:
    """What a step spends on computing activations again; 0 where it does not, or no time is known."""
    rows = program.report.time.rows if program.report.time else ()
    return sum(r.seconds for r in rows if r.phase is Phase.RECOMPUTED)


def files_of(program: ProgramSubject, files: SourceFiles) -> list[SourceFile]:
    """The user's files whose code the program runs, those with most of its operations first."""
    if program.module is None:
        return []
    lines = program.report.lines or UserLines()
    frames = (f for stack in program.module.stacks for f in lines.own_frames(stack))
    names = [name for name, _ in Counter(f.file for f in frames).most_common()]
    return [file for name in names if (file := files.get(name))]


def _has_gradient(program: ProgramSubject) -> bool:
    """Whether a part of the program is the backward pass of another."""
    instructions = program.module.by_id.values() if program.module else ()
    return any(phase_of(i.op_name) is Phase.BACKWARD for i in instructions)
