"""The compiler's message about a kernel's scratch memory (T7); tables of VMEM are `long_form`'s."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vtpu.program.shapes import ArrayShape
from vtpu.reading.messages.patterns import Message, Pattern, Where, pattern, size_of
from vtpu.reading.printed.operators import Operator, parse_operator
from vtpu.reading.printed.shapes import instruction_name, quoted_shapes
from vtpu.reading.printed.sizes import SIZE, PrintedSize, difference

_RESULT = re.compile(r"=\s*(\([^=]*?\)|\S+)\s+([a-z][\w\-]*)\(")
_CONSTRAINTS = re.compile(r"operand_layout_constraints=\{(.*?)\}(?:,\s*[a-z_]+=|\s*$)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedTooLarge(Message):
    """T7. Windows (twice when double buffered), scratch and spills of one kernel exceed the limit.

    `size` is what all of them take together. `instruction`: the HLO text of the kernel.
    """

    space: str | None
    instruction: str | None
    size: PrintedSize | None
    limit: PrintedSize | None
    over: PrintedSize | None
    asks_for_bug_report: bool

    @property
    def name(self) -> str | None:
        """The kernel's name in HLO: `scale.1`."""
        return instruction_name(self.instruction)

    @property
    def opcode(self) -> str | None:
        """`custom-call`, `fusion`."""
        match = _RESULT.search(self.instruction or "")
        return match[2] if match else None

    @property
    def results(self) -> tuple[ArrayShape, ...]:
        """Shapes of the kernel's results."""
        match = _RESULT.search(self.instruction or "")
        return quoted_shapes(match[1]) if match else ()

    @property
    def operands(self) -> tuple[ArrayShape, ...]:
        """Shapes of the kernel's operands."""
        match = _CONSTRAINTS.search(self.instruction or "")
        return quoted_shapes(match[1]) if match else ()

    @property
    def operator(self) -> Operator:
        """The operator of the user's program."""
        return parse_operator(self.instruction or "")

    @property
    def is_users_kernel(self) -> bool | None:
        """Whether it is a Pallas kernel, so its block sizes are the user's; None when cut."""
        if self.instruction is None or self.opcode is None:
            return None
        return "tpu_custom_call" in self.instruction

    @property
    def takes_whole_operands(self) -> bool:
        """Whether the size is that of all operands and results as they are, so nothing is blocked."""
        arrays = (*self.results, *self.operands)
        whole = PrintedSize(sum(array.padded_bytes for array in arrays))
        return bool(self.operands) and self.size is not None and self.size.may_equal(whole)

    @property
    def excess(self) -> PrintedSize | None:
        """How much too much."""
        return self.over if self.over is not None else difference(self.size, self.limit)


def _scoped(match: re.Match[str], where: Where) -> ScopedTooLarge:
    instruction = match["instruction"] or match["open"]
    behind = match.string[match.end() : match.end() + 1500].split("See http")[0]
    return ScopedTooLarge(
        where=where,
        space=match["space"],
        instruction=" ".join(instruction.split()) if instruction else None,
        size=size_of(match, "size"),
        limit=size_of(match, "limit"),
        over=size_of(match, "over"),
        asks_for_bug_report=re.match(r"[^\n]*file\s+a\s+bug", behind) is not None,
    )


PATTERNS: tuple[Pattern, ...] = (
    pattern(
        "T7",
        _scoped,
        r"Ran out of memory in memory space (?P<space>\w+) while allocating on stack for",
        r"(?:(?P<instruction>[^\n]{1,50000}?(?:\n[^\n]{1,5000}?){0,20}?)\.(?= Scoped allocation with)"
        r"|(?P<open>[^\n]{1,50000}))",
        rf"Scoped allocation with size (?P<size>{SIZE}) and limit (?P<limit>{SIZE})",
        rf"exceeded scoped \w+ limit by (?P<over>{SIZE})",
    ),
)
