"""Short messages of the compiler about HBM: T2, T4, T5, T6, T19, and libtpu's limit (T27)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vtpu.program.shapes import ArrayShape
from vtpu.reading.messages.patterns import (
    INT,
    Message,
    Pattern,
    Where,
    int_of,
    pattern,
    size_of,
    text_of,
)
from vtpu.reading.printed.shapes import array_shape
from vtpu.reading.printed.sizes import SIZE, PrintedSize, difference


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTooLarge(Message):
    """T2. `required`: arguments, results and temporaries, although the text says temporaries."""

    required: PrintedSize | None
    available: PrintedSize | None
    module: str | None

    @property
    def excess(self) -> PrintedSize | None:
        """How much too much."""
        return difference(self.required, self.available)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilationAborted(Message):
    """T4. The compiler gave up early."""

    required: PrintedSize | None
    available: PrintedSize | None

    @property
    def excess(self) -> PrintedSize | None:
        """How much too much."""
        return difference(self.required, self.available)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreUsage(Message):
    """T5. The two kinds of cores share the memory, so their usages add up."""

    tensorcore: PrintedSize | None
    sparsecore: PrintedSize | None
    available: PrintedSize | None

    @property
    def excess(self) -> PrintedSize | None:
        """How much too much both together are."""
        if self.tensorcore is None or self.sparsecore is None or self.available is None:
            return None
        return self.tensorcore + self.sparsecore - self.available

    @property
    def alone_too_large(self) -> tuple[str, ...]:
        """The kinds of cores that exceed the memory without the other."""
        if self.available is None:
            return ()
        cores = (("TensorCore", self.tensorcore), ("SparseCore", self.sparsecore))
        return tuple(n for n, used in cores if used and used.surely_exceeds(self.available))


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferTooLarge(Message):
    """T6. One buffer is larger than its whole memory."""

    size_bytes: int | None
    capacity_bytes: int | None
    allocation: int | None
    shape_text: str | None
    shape: ArrayShape | None
    space: str | None
    is_scoped: bool
    tag: str | None
    operation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RematerializationFailed(Message):
    """T19. The compiler could not reduce memory to what it wanted: it will not fit."""

    target_bytes: int | None
    reached_bytes: int | None
    original_bytes: int | None

    @property
    def excess_bytes(self) -> int | None:
        """How much more than wanted is left."""
        if self.target_bytes is None or self.reached_bytes is None:
            return None
        return self.reached_bytes - self.target_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RematerializationLimit(Message):
    """T27. What libtpu lets a program's temporaries take: part of HBM less arguments and code."""

    limit: PrintedSize | None
    percent: int | None
    usable: PrintedSize | None
    arguments: PrintedSize | None
    aliased_output: PrintedSize | None
    overlays: PrintedSize | None


def _too_large(match: re.Match[str], where: Where) -> ProgramTooLarge:
    return ProgramTooLarge(
        where=where,
        required=size_of(match, "required"),
        available=size_of(match, "available"),
        module=text_of(match, "module"),
    )


def _aborted(match: re.Match[str], where: Where) -> CompilationAborted:
    return CompilationAborted(
        where=where, required=size_of(match, "required"), available=size_of(match, "available")
    )


def _cores(match: re.Match[str], where: Where) -> CoreUsage:
    return CoreUsage(
        where=where,
        tensorcore=size_of(match, "tensorcore"),
        sparsecore=size_of(match, "sparsecore"),
        available=size_of(match, "available"),
    )


#: What stands in T6 where no instruction is to blame.
_NO_OPERATION = "<no-hlo-instruction>"


def _buffer(match: re.Match[str], where: Where) -> BufferTooLarge:
    operation = match["operation"]
    return BufferTooLarge(
        where=where,
        size_bytes=int_of(match, "size"),
        capacity_bytes=int_of(match, "capacity"),
        allocation=int_of(match, "allocation"),
        shape_text=match["shape"],
        shape=array_shape(match["shape"]),
        space=match["space"],
        is_scoped=match["scoped"] is not None,
        tag=text_of(match, "tag"),
        operation=(operation or "").replace(_NO_OPERATION, "").strip() or None,
    )


def _remat(match: re.Match[str], where: Where) -> RematerializationFailed:
    return RematerializationFailed(
        where=where,
        target_bytes=int_of(match, "target"),
        reached_bytes=int_of(match, "reached"),
        original_bytes=int_of(match, "original"),
    )


def _limit(match: re.Match[str], where: Where) -> RematerializationLimit:
    return RematerializationLimit(
        where=where,
        limit=size_of(match, "limit"),
        percent=int_of(match, "percent"),
        usable=size_of(match, "usable"),
        arguments=size_of(match, "arguments"),
        aliased_output=size_of(match, "aliased"),
        overlays=size_of(match, "overlays"),
    )


PATTERNS: tuple[Pattern, ...] = (
    pattern(
        "T2",
        _too_large,
        r"Ran out of memory on HBM\b,?",
        r"the total memory required for HLO temporaries",
        rf"\((?P<required>{SIZE})\)",
        rf"exceeds available HBM \((?P<available>{SIZE})\)\.?",
        r"(?:HLO module: (?P<module>[^\s]+?)\.?(?=\s|$|See ))?",
    ),
    pattern(
        "T4",
        _aborted,
        r"Aborting compilation early",
        r"because it's unlikely to have enough memory\.",
        rf"Requires (?P<required>{SIZE}),",
        rf"has (?P<available>{SIZE}) available\.?",
    ),
    pattern(
        "T5",
        _cores,
        r"TPU TensorCore Hbm usage:",
        rf"(?P<tensorcore>{SIZE}),",
        rf"SparseCore Hbm usage:? (?P<sparsecore>{SIZE}),",
        rf"exceeding available bytes: (?P<available>{SIZE})",
    ),
    pattern(
        "T6",
        _buffer,
        rf"Allocation \(size=(?P<size>{INT})\) would exceed memory",
        rf"\(size=(?P<capacity>{INT})\)",
        rf":: #allocation(?P<allocation>{INT})",
        r"\[shape = '(?P<shape>[^'\n]*)',",
        r"space=(?P<space>\w+),",
        r"size = 0x[0-9a-fA-F]+,?",
        r"(?P<scoped>scoped,)?(?:\s*tag = '(?P<tag>[^'\n]*)')?[^\]\n]{0,400}\]",
        r"::[ ]?(?P<operation>[^\n]*)",
    ),
    pattern(
        "T19",
        _remat,
        r"Can't reduce memory use below",
        rf"{SIZE} \((?P<target>{INT}) bytes\)",
        r"by rematerialization;",
        rf"only reduced to {SIZE} \((?P<reached>{INT}) bytes\)",
        rf"(?:, down from {SIZE} \((?P<original>{INT}) bytes\) originally)?",
    ),
    pattern(
        "T27",
        _limit,
        r"XLA::TPU post optimization rematerialization limit",
        rf"(?P<limit>{SIZE}) =",
        rf"(?P<percent>\d{{1,3}})% hbm \((?P<usable>{SIZE})\) -",
        rf"\(arguments \((?P<arguments>{SIZE})\) - aliased_output\s*\((?P<aliased>{SIZE})\)\)",
        rf"- overlays \((?P<overlays>{SIZE})\)",
    ),
)
