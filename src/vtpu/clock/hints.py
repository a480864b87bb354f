"""What the compiler says of an instruction's execution, in the JSON that its back end keeps with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from typing import Any

from vtpu.program.modules import Instruction

_CANNOT_TELL = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """How the compiler means to run an instruction.

    `estimated_cycles` is its own estimate. A fusion runs in `iterations` over windows of its output; of a
    matrix product also of its input and its kernel (left and right operand, as the emitter has them).
    The windows' two last dimensions are counted in registers of 8 x 128.
    """

    estimated_cycles: int | None = None
    iterations: tuple[int, ...] = ()
    output_window: tuple[int, ...] = ()
    kernel_window: tuple[int, ...] = ()
    input_window: tuple[int, ...] = ()

    @property
    def steps(self) -> int:
        """Iterations in all; 1 when the compiler says none."""
        return prod(self.iterations) if self.iterations else 1


def hints_of(instruction: Instruction) -> Hints:
    """The compiler's hints; empty where it says nothing or says it in another form."""
    if not instruction.attributes.startswith(b"{"):
        return Hints()
    try:
        said = json.loads(instruction.attributes)
    except ValueError:
        return Hints()
    return _hints(said) if isinstance(said, dict) else Hints()


def _hints(said: dict[str, Any]) -> Hints:
    window = said.get("window_config") or {}
    return Hints(
        estimated_cycles=_cycles(window.get("estimated_cycles")),
        iterations=_ints(window.get("iteration_bounds")),
        output_window=_ints(window.get("output_window_bounds")),
        kernel_window=_ints(window.get("kernel_window_bounds")),
        input_window=_ints(window.get("input_window_bounds")),
    )


def _ints(values: list[str] | None) -> tuple[int, ...]:
    return tuple(int(value) for value in values or ())


def _cycles(value: str | None) -> int | None:
    """The compiler's cycles; None where it says the largest number, which is its "cannot tell"."""
    if value is None:
        return None
    cycles = int(value)
    return None if cycles >= _CANNOT_TELL else cycles
