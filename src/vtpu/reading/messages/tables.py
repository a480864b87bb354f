"""The parts of XLA:TPU's long message: totals, requirements of memory spaces, a table of buffers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vtpu.program.shapes import ArrayShape
from vtpu.reading.messages.patterns import Message
from vtpu.reading.printed.operators import Operator
from vtpu.reading.printed.shapes import instruction_name, quoted_shapes
from vtpu.reading.printed.sizes import PrintedSize, difference
from vtpu.reading.text_dumps.usage_report import SpaceUsage


@dataclass(frozen=True, slots=True)
class Part:
    """A line of a total or of a requirement: `HLO temp 1.68G (66.7% utilization: …)`.

    `size` is None for "unknown size". `unpadded`, `padded`: bytes of data without and with tiles;
    `fragmentation`: what is lost between buffers.
    """

    name: str
    size: PrintedSize | None
    utilization_percent: float | None = None
    unpadded: PrintedSize | None = None
    padded: PrintedSize | None = None
    fragmentation_percent: float | None = None
    fragmentation: PrintedSize | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """Results of a program. `shares`: bytes that reuse arguments, so what donation achieved."""

    size: PrintedSize | None
    utilization_percent: float | None
    shares: PrintedSize | None


@dataclass(frozen=True, slots=True)
class Block:
    """`Total hbm usage >= …` or `Program hbm requirement …` with its lines; None where it was cut."""

    space: str | None
    total: PrintedSize | None
    parts: tuple[Part, ...]
    output: Output | None = None

    def part(self, name: str) -> Part | None:
        """The line called `name`, or None."""
        return next((part for part in self.parts if part.name == name), None)

    def size_of(self, name: str) -> PrintedSize | None:
        """The size in the line called `name`, or None."""
        part = self.part(name)
        return part.size if part else None


_KERNEL = re.compile(r"(?P<kernel>[A-Za-z]\w*?)(?P<blocks>(?:-[a-z]+(?:_\d+)+)+)(?:\.\d+)?")
_WINDOW = re.compile(
    r"(?P<kind>input|output) window allocation for operator (?:input|output) (?P<operand>\d{1,9})"
)
_WINDOW_SHAPE = re.compile(
    r"window shape is (?P<window>\S+?), while the full shape is (?P<full>\S+?)\.(?:\s|$)"
)
_SPILL = "register allocator spill slots"


@dataclass(frozen=True, slots=True)
class Entry:
    """A buffer of the table. `number` is None where the line with number and size was cut off."""

    number: int | None
    size: PrintedSize | None
    operator: Operator | None
    shape_text: str | None
    shape: ArrayShape | None
    unpadded: PrintedSize | None
    padding: PrintedSize | None
    expansion: float | None
    tag: str | None
    label: str | None
    allocation_type: str | None
    lines: tuple[int, int]
    is_cut: bool

    @property
    def instruction(self) -> str | None:
        """The name of the instruction in the label."""
        return instruction_name(self.label)

    @property
    def kernel(self) -> str | None:
        """A kernel's name without the block sizes and the number that may be part of it."""
        name = self.instruction
        match = _KERNEL.fullmatch(name) if name else None
        if match:
            return match["kernel"]
        return re.sub(r"\.\d+$", "", name) if name and self.is_custom_call else None

    @property
    def block_sizes(self) -> dict[str, tuple[int, ...]]:
        """Block sizes that a kernel carries in its name: `-bq_512_256` is bq: (512, 256)."""
        match = _KERNEL.fullmatch(self.instruction or "")
        blocks = re.findall(r"-([a-z]+)((?:_\d{1,9})+)", match["blocks"]) if match else []
        return {name: tuple(int(n) for n in sizes.split("_") if n) for name, sizes in blocks}

    @property
    def is_custom_call(self) -> bool:
        """Whether the buffer is a kernel's."""
        return "custom-call" in (self.label or "")

    @property
    def operands(self) -> tuple[ArrayShape, ...]:
        """Shapes of the label's operands, where it prints them."""
        _, found, call = (self.label or "").partition(" = ")
        head, opened, inside = re.sub(r"^\([^=]*?\) (?=[a-z])", "", call).partition(" ")
        del head
        name = re.match(r"[\w\-]+\(", inside)
        return quoted_shapes(inside[name.end() :]) if found and opened and name else ()

    @property
    def is_spill(self) -> bool:
        """Whether these are registers that the compiler had to put into memory."""
        return _SPILL in (self.label or "") or _SPILL in (self.tag or "")

    @property
    def window(self) -> Window | None:
        """What the tag says of a window of an operand, or None."""
        match = _WINDOW.search(self.tag or "")
        if not match:
            return None
        shapes = _WINDOW_SHAPE.search(self.tag or "")
        buffers = re.search(r"is (single|double) buffered", self.tag or "")
        return Window(
            match["kind"],
            int(match["operand"]),
            shapes["window"] if shapes else None,
            shapes["full"] if shapes else None,
            buffers[1] == "double" if buffers else None,
        )


@dataclass(frozen=True, slots=True)
class Window:
    """A kernel's window on an operand in VMEM; one that is double buffered takes its bytes twice."""

    kind: str
    operand: int
    window_shape: str | None
    full_shape: str | None
    is_double_buffered: bool | None


@dataclass(frozen=True, slots=True)
class Usage:
    """`XLA::TPU program HBM usage: 2.10G / 15.75G`."""

    space: str
    used: PrintedSize
    capacity: PrintedSize | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport(Message):
    """A long message (T1, T3, T8, T27), or the same tables of a program that fits (T23).

    `has_header`: the sentence "Ran out of memory in memory space …" is there. `usage`: the memory
    usage report of libtpu's log.
    """

    has_header: bool
    fits: bool
    space: str | None
    used: PrintedSize | None
    capacity: PrintedSize | None
    over: PrintedSize | None
    module: str | None
    totals: tuple[Block, ...]
    requirements: tuple[Block, ...]
    entries: tuple[Entry, ...]
    usage: tuple[SpaceUsage, ...]
    usages: tuple[Usage, ...]

    def total(self, space: str | None = None) -> Block | None:
        """`Total … usage` of a memory space, by default of the one that the message is about."""
        return _of_space(self.totals, space or self.space)

    def requirement(self, space: str | None = None) -> Block | None:
        """`Program … requirement` of a memory space, by default of the message's."""
        return _of_space(self.requirements, space or self.space)

    @property
    def temp(self) -> Part | None:
        """Temporaries of the memory space that the message is about, with padding and gaps."""
        block = self.requirement()
        return block.part("HLO temp") if block else None

    @property
    def excess(self) -> PrintedSize | None:
        """How much too much: as printed, which is more exact than the difference of the others."""
        return self.over if self.over is not None else difference(self.used, self.capacity)

    @property
    def largest(self) -> Entry | None:
        """The largest buffer of the table."""
        sized = [entry for entry in self.entries if entry.size is not None]
        return max(sized, key=lambda e: e.size.bytes if e.size else 0, default=None)

    @property
    def arguments_percent(self) -> float | None:
        """The part of the total that arguments take."""
        total = self.total()
        arguments = total.size_of("arguments") if total else None
        if total is None or total.total is None or arguments is None or not total.total.bytes:
            return None
        return 100 * arguments.bytes / total.total.bytes

    @property
    def padding_factor(self) -> float | None:
        """Padded over unpadded bytes of temporaries."""
        temp = self.temp
        if temp is None or temp.padded is None or temp.unpadded is None or not temp.unpadded.bytes:
            return None
        return temp.padded.bytes / temp.unpadded.bytes

    def entry(self, number: int) -> Entry | None:
        """The buffer of that number in the table."""
        return next((entry for entry in self.entries if entry.number == number), None)


def _of_space(blocks: tuple[Block, ...], space: str | None) -> Block | None:
    """The block of a memory space; the only or first one where the space is unknown."""
    named = [block for block in blocks if block.space == space or space is None]
    return named[0] if named else None
