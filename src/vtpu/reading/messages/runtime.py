"""Messages of the TPU runtime: buffers and programs that found no room (T9 to T14)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from vtpu.program.shapes import ArrayShape
from vtpu.reading.messages.patterns import (
    INT,
    Message,
    Pattern,
    Where,
    int_of,
    pattern,
    renamed,
    size_of,
    text_of,
)
from vtpu.reading.printed.shapes import array_shape
from vtpu.reading.printed.sizes import SIZE, PrintedSize, difference

#: A shape in brackets: a layout has brackets of its own.
_SHAPE = r"[^\s()]*(?:\([^()\n]*\)[^\s()]*)*"


class Lack(Enum):
    """What was lacking: bytes, or bytes in one piece."""

    FULL = "full"
    FRAGMENTED = "fragmented"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationFailed(Message):
    """T9 and T11. A buffer (or a program's image, T11) found no room.

    `largest`: the largest free block, said only when free memory is in pieces. `place`: chip and
    core, `0x0x0_HBM0`. `is_premapped`: host memory for transfers, not HBM.
    """

    request: PrintedSize | None
    free: PrintedSize | None
    largest: PrintedSize | None
    place: str | None
    program: str | None
    replica: int | None
    partition: int | None
    is_premapped: bool

    @property
    def lack(self) -> Lack | None:
        """Whether bytes were lacking or one piece of them; None when the message is cut."""
        if self.request is None or self.free is None:
            return None
        is_in_pieces = self.largest is not None and not self.request.surely_exceeds(self.free)
        return Lack.FRAGMENTED if is_in_pieces else Lack.FULL

    @property
    def short(self) -> PrintedSize | None:
        """By how much: of all free memory, or of the largest block where that was the reason."""
        enough = self.largest if self.lack is Lack.FRAGMENTED else self.free
        return difference(self.request, enough)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationFailed(Message):
    """T10. A program's temporaries need one block at the low end of memory, and it is not free."""

    request: PrintedSize | None
    free: PrintedSize | None
    reserved: PrintedSize | None
    reservable: PrintedSize | None
    scope: str | None
    program: str | None

    @property
    def lack(self) -> Lack | None:
        """Whether bytes were lacking or one piece of them; None when the message is cut."""
        if self.request is None or self.free is None:
            return None
        return Lack.FULL if self.request.surely_exceeds(self.free) else Lack.FRAGMENTED

    @property
    def short(self) -> PrintedSize | None:
        """How much more would have to be reservable."""
        return difference(self.request, self.reservable)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldDriverFailed(Message):
    """T12. `largest_bytes`: the largest free block, `free_bytes`: all that was free."""

    request_bytes: int | None
    device: str | None
    largest_bytes: int | None
    free_bytes: int | None

    @property
    def lack(self) -> Lack | None:
        """Whether bytes were lacking or one piece of them; None when the message is cut."""
        if self.request_bytes is None or self.free_bytes is None:
            return None
        return Lack.FULL if self.request_bytes > self.free_bytes else Lack.FRAGMENTED

    @property
    def short_bytes(self) -> int | None:
        """How much larger the largest block (or, when full, all free memory) would have to be."""
        enough = self.free_bytes if self.lack is Lack.FULL else self.largest_bytes
        return None if self.request_bytes is None or enough is None else self.request_bytes - enough


@dataclass(frozen=True, slots=True, kw_only=True)
class InputMismatch(Message):
    """T13. An array has another layout, or lies in another memory, than the program expects."""

    program: str | None
    parameter: int | None
    expected_bytes: int | None
    expected_text: str | None
    expected: ArrayShape | None
    got_bytes: int | None
    got_text: str | None
    got: ArrayShape | None
    memory_space: str | None

    @property
    def ratio(self) -> float | None:
        """Expected over given bytes."""
        if not self.got_bytes or self.expected_bytes is None:
            return None
        return self.expected_bytes / self.got_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFailed(Message):
    """T14. The memory of a device is full."""

    request: PrintedSize | None
    device: int | None


_PREFIX = r"(?:Error (?:allocating device buffer|loading program(?: '(?P<program>[^'\n]*)')?):\s*)?"


def _allocation(match: re.Match[str], where: Where) -> Message:
    is_program = "loading program" in match[0]
    line_start = match.string.rfind("\n", 0, match.start()) + 1
    before = match.string[max(line_start, match.start() - 400) : match.start()].lower()
    return AllocationFailed(
        where=renamed(where, "T11") if is_program else where,
        request=size_of(match, "request"),
        free=size_of(match, "free"),
        largest=size_of(match, "largest") or size_of(match, "contiguous"),
        place=match["place"],
        program=match["program"],
        replica=int_of(match, "replica"),
        partition=int_of(match, "partition"),
        is_premapped="premapped" in before,
    )


def _reservation(match: re.Match[str], where: Where) -> ReservationFailed:
    return ReservationFailed(
        where=where,
        request=size_of(match, "request"),
        free=size_of(match, "free"),
        reserved=size_of(match, "reserved"),
        reservable=size_of(match, "reservable"),
        scope=text_of(match, "scope"),
        program=match["program"],
    )


def _old_driver(match: re.Match[str], where: Where) -> OldDriverFailed:
    return OldDriverFailed(
        where=where,
        request_bytes=int_of(match, "request"),
        device=text_of(match, "device"),
        largest_bytes=int_of(match, "largest"),
        free_bytes=int_of(match, "free"),
    )


def _mismatch(match: re.Match[str], where: Where) -> InputMismatch:
    return InputMismatch(
        where=where,
        program=match["program"],
        parameter=int_of(match, "parameter"),
        expected_bytes=int_of(match, "expected"),
        expected_text=match["shape"],
        expected=array_shape(match["shape"]),
        got_bytes=int_of(match, "got"),
        got_text=match["gotshape"],
        got=array_shape(match["gotshape"]),
        memory_space=None,
    )


def _misplaced(match: re.Match[str], where: Where) -> InputMismatch:
    return InputMismatch(
        where=where,
        program=match["program"],
        parameter=int_of(match, "parameter"),
        expected_bytes=None,
        expected_text=None,
        expected=None,
        got_bytes=None,
        got_text=None,
        got=None,
        memory_space=match["space"],
    )


def _request(match: re.Match[str], where: Where) -> RequestFailed:
    exact = int_of(match, "bytes")
    request = PrintedSize(exact) if exact is not None else size_of(match, "request")
    return RequestFailed(where=where, request=request, device=int_of(match, "device"))


PATTERNS: tuple[Pattern, ...] = (
    pattern(
        "T9",
        _allocation,
        _PREFIX + r"Attempting to allocate(?=\s)",
        rf"(?P<request>{SIZE})\.",
        r"That was not possible\.",
        rf"There are (?P<free>{SIZE}) free\.",
        rf"(?:Due to fragmentation, the largest contiguous region of free memory is (?P<largest>{SIZE})"
        rf"\.?|The largest contiguous region of free memory is (?P<contiguous>{SIZE})"
        r" due to fragmentation\.?)?",
        r"(?:;?\s*\((?P<place>\d+(?:x\d+)+_HBM\d+)\))?",
        r"(?:: while running replica (?P<replica>\d{1,9}) and partition (?P<partition>\d{1,9}) of a"
        r" replicated computation(?: \(other replicas may have failed as well\))?\.?)?",
        word="Attempting",
    ),
    pattern(
        "T10",
        _reservation,
        _PREFIX + r"Attempting to reserve(?=\s)",
        rf"(?P<request>{SIZE}) at the bottom of memory\.",
        r"That was not possible\.",
        rf"There are (?P<free>{SIZE}) free,",
        rf"(?P<reserved>{SIZE}) reserved,",
        rf"and (?P<reservable>{SIZE}) reservable\.?",
        r"(?:Scope: (?P<scope>[^\n.;]+))?",
        word="Attempting",
    ),
    pattern(
        "T12",
        _old_driver,
        rf"Could not allocate (?P<request>{INT}) bytes in memory",
        r"(?P<device>[^;\n]{1,200}?);",
        rf"(?P<largest>{INT}) bytes allocatable,",
        rf"(?P<free>{INT}) bytes available",
    ),
    pattern(
        "T13",
        _mismatch,
        rf"Executable\((?P<program>[^()\n]{{0,300}})\) expected parameter (?P<parameter>{INT}) of size",
        rf"(?P<expected>{INT}) \((?P<shape>{_SHAPE})\)",
        r"but got buffer with incompatible size",
        rf"(?P<got>{INT}) \((?P<gotshape>{_SHAPE})\)",
    ),
    pattern(
        "T13",
        _misplaced,
        r"(?:Executable\((?P<program>[^()\n]{0,300})\)[^\n]{0,300}?)?"
        rf"got a parameter buffer for parameter (?P<parameter>{INT})",
        r"in an unexpected memory space",
        r"'(?P<space>[^'\n]*)'",
        word="got",
    ),
    pattern(
        "T14",
        _request,
        r"Failed to allocate request for",
        rf"(?P<request>{SIZE})",
        rf"\((?P<bytes>{INT})B\)",
        r"on device ordinal (?P<device>\d{1,9})",
    ),
)
