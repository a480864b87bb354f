"""How findings name things in their sentences."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from vtpu.analysis.run.loop import Repeated
from vtpu.analysis.source_lines import SourceLine
from vtpu.program.element_types import ElementType
from vtpu.recording.recording import ShapeRecord

_LONGEST = 60


def place(line: SourceLine) -> str:
    """A line as people call it, `train.py:26`; its folder is in the evidence."""
    return f"{PurePath(line.file).name}:{line.line}" if line.line else "an unknown line"


def at(line: SourceLine) -> str:
    """The end of a sentence that says where: ` at train.py:26`; empty where the line is not known."""
    return f" at {place(line)}" if line.line else ""


def listed(names: Iterable[str], most: int = 3) -> str:
    """Names in a sentence: `params, m and v`; of many the first ones."""
    found = [*dict.fromkeys(names)]
    shown = found[:most] if len(found) > most + 1 else found
    more = [f"{len(found) - len(shown)} more"] if len(found) > len(shown) else []
    *first, last = [*shown, *more]
    return f"{', '.join(first)} and {last}" if first else last


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
