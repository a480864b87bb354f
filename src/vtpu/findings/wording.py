"""Words that several rules use."""

from __future__ import annotations

from vtpu.analysis.run.loop import Repeated
from vtpu.program.element_types import ElementType
from vtpu.recording.recording import ShapeRecord

_LONGEST = 60


def quoted(code: str) -> str:
    """A piece of the user's code in a sentence, cut where it is long."""
    return f"`{code if len(code) <= _LONGEST else code[: _LONGEST - 2] + ' …'}`"


def in_steps(line: Repeated) -> str:
    """In how many steps a line does something."""
    if line.steps == line.of_steps:
        return "in each step"
    return f"in {line.steps} of {line.of_steps} steps"


def shape_text(shape: ShapeRecord) -> str:
    """A shape as XLA prints it, without its layout: `f32[8,128]`."""
    dims = ",".join(map(str, shape.dims))
    return f"{ElementType(shape.element_type).xla_name}[{dims}]"
