"""Messages about donation, sharding, transfers, tracing and the host: T18, T20 to T22, T24 to T26."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from vtpu.program.shapes import ArrayShape
from vtpu.reading.messages.cleaning import CleanText
from vtpu.reading.messages.patterns import (
    INT,
    Found,
    Message,
    Pattern,
    Where,
    cut_problem,
    int_of,
    locate,
    pattern,
    spaced,
    text_of,
)
from vtpu.reading.printed.operators import Operator, parse_operator
from vtpu.reading.printed.shapes import aval_shape
from vtpu.reading.printed.sizes import PrintedSize, parse_size
from vtpu.reading.text_dumps.usage_report import split_shapes

# ---- donation: T18 ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DonatedBuffer:
    """A donated array that nothing could reuse: as printed, and its shape where it is one."""

    text: str
    shape: ArrayShape | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DonationUnused(Message):
    """T18. Donated arrays that no result could take over."""

    buffers: tuple[DonatedBuffer, ...]
    not_implemented_for: str | None

    @property
    def logical_bytes(self) -> int | None:
        """Bytes of the arrays without padding; None when a shape is unknown."""
        shapes = [buffer.shape for buffer in self.buffers]
        if not shapes or None in shapes:
            return None
        return sum(shape.logical_bytes for shape in shapes if shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class DonationFailed(Message):
    """T18. An array was donated that could not be, or used after it was."""

    what: str
    argument: int | None
    replica: int | None
    partition: int | None
    first_use: int | None


_DONATED_END = re.compile(r"\.?\s*(?:\n\s*\n|See an explanation|Donation is not implemented|\Z)")
_WRAPPED = re.compile(r"ShapedArray\((.*)\)", re.DOTALL)


def _donation(match: re.Match[str], where: Where) -> DonationUnused:
    texts = split_shapes(" ".join((match["buffers"] or "").split()).removesuffix("."))
    return DonationUnused(
        where=where,
        buffers=tuple(DonatedBuffer(text, _donated_shape(text)) for text in texts),
        not_implemented_for=text_of(match, "platform"),
    )


def _donated_shape(text: str) -> ArrayShape | None:
    wrapped = _WRAPPED.fullmatch(text)
    inner = split_shapes(wrapped[1]) if wrapped else [text]
    return aval_shape(inner[0]) if inner else None


def _donation_failed(match: re.Match[str], where: Where) -> DonationFailed:
    names = ("argument", "replica", "partition", "first")
    argument, replica, partition, first = (int_of(match, name) for name in names)
    what = " ".join(match[0].split())
    return DonationFailed(
        where=where,
        what=what,
        argument=argument,
        replica=replica,
        partition=partition,
        first_use=first,
    )


# ---- sharding: T20 ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FullRematerialization(Message):
    """T20. A change of sharding that goes through a copy of the whole tensor on every device."""

    sharding_from: str | None
    sharding_to: str | None
    operation: str | None

    @property
    def operator(self) -> Operator:
        """The operator of the user's program."""
        return parse_operator(self.operation or "")


_SHARDING = r"\{(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]*\})*\})*\}"
_HLO = r"[^\n]{1,20000}?"


def _resharding(match: re.Match[str], where: Where) -> FullRematerialization:
    return FullRematerialization(
        where=where,
        sharding_from=text_of(match, "source"),
        sharding_to=text_of(match, "target"),
        operation=text_of(match, "operation"),
    )


# ---- transfers: T21 -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedTransfer(Message):
    """T21. A transfer that JAX's guard refused, or wrote to the log."""

    direction: str
    is_refused: bool
    shape_text: str | None
    shape: ArrayShape | None
    device: str | None
    sharding: str | None

    @property
    def logical_bytes(self) -> int | None:
        """Bytes that would have been moved, without padding."""
        return self.shape.logical_bytes if self.shape else None


_SIDES = "(?P<direction>host-to-device|device-to-host|device-to-device)"


def _transfer(match: re.Match[str], where: Where) -> GuardedTransfer:
    dims, dtype = (match["dims"] or "").replace(" ", ""), match["dtype"]
    aval = match["aval"] or (f"{dtype.lower()}[{dims}]" if dtype else None)
    return GuardedTransfer(
        where=replace(where, is_cut=aval is None),
        direction=match["direction"],
        is_refused=match["refused"] is not None,
        shape_text=aval,
        shape=_aval(aval),
        device=text_of(match, "device"),
        sharding=text_of(match, "sharding"),
    )


def _aval(text: str | None) -> ArrayShape | None:
    if not text:
        return None
    shape = _donated_shape(text)
    return shape or aval_shape(text.replace(",]", "]"))


# ---- tracing: T22 -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingCacheMiss(Message):
    """T22. Why JAX traced a function again, in JAX's words."""

    place: str
    context: str | None
    reasons: tuple[str, ...]

    @property
    def is_new_function(self) -> bool:
        """Whether the function was never seen before."""
        return any("never seen function" in reason for reason in self.reasons)


_MISS = re.compile(r"TRACING CACHE MISS at (?P<place>[^\n]*?)(?: \((?P<context>[^()\n]*)\))?"
                   r"(?: because)?:[ \t]*(?=\n|$)")  # fmt: skip
_REASON = re.compile(
    r"[ \t]+\S|(?:never seen function|key with different|for \S+ defined at|all previously seen"
    r"|but |types now:|\* at )"
)


def find_cache_misses(cleaned: CleanText, text: str) -> list[Found]:
    """Every T22 in `text` with the lines of its explanation."""
    return [_miss(cleaned, text, match) for match in _MISS.finditer(text)]


def _miss(cleaned: CleanText, text: str, match: re.Match[str]) -> Found:
    end, reasons = match.end(), list[str]()
    while end < len(text):
        stop = text.find("\n", end + 1)
        stop = len(text) if stop < 0 else stop
        line = text[end + 1 : stop]
        if not _REASON.match(line) or "TRACING CACHE MISS" in line:
            break
        reasons.append(line.strip())
        end = stop
    where = locate(cleaned, "T22", match.start(), end, is_cut=not reasons)
    miss = TracingCacheMiss(
        where=where,
        place=match["place"].strip(),
        context=match["context"],
        reasons=tuple(reasons),
    )
    return Found(match.start(), end, miss, cut_problem(where))


# ---- PyTorch/XLA: T24 ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchAnalysis(Message):
    """T24. PyTorch/XLA's figures of a compiled graph; its GB are binary."""

    inputs: PrintedSize | None
    outputs: PrintedSize | None
    aliased: PrintedSize | None
    intermediate: PrintedSize | None
    program: PrintedSize | None


_TORCH_SIZE = r"(?P<{}>\d{{1,12}}(?:\.\d{{1,9}})?) GB"


def _torch_piece(name: str, group: str) -> str:
    size = _TORCH_SIZE.format(group)
    return rf"(?:=+\s*)?(?:Post Compilation Analysis:\s*)?{name} size: {size}"


def _torch(match: re.Match[str], where: Where) -> TorchAnalysis:
    def size(name: str) -> PrintedSize | None:
        return parse_size(match[name] + "G") if match[name] else None

    return TorchAnalysis(
        where=where,
        inputs=size("inputs"),
        outputs=size("outputs"),
        aliased=size("aliased"),
        intermediate=size("intermediate"),
        program=size("program"),
    )


# ---- constants and outputs: T25, T26 ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowConstantFolding(Message):
    """T25. The compiler computes a constant for a long time."""

    seconds: float
    operation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedConstants(Message):
    """T25. Arrays of the host became part of a program."""

    total: PrintedSize | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOutputLayout(Message):
    """T26. A result lies in host memory, but its layout does not say so."""

    tensor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOutOfMemory(Message):
    """The host's memory ran out, not the device's: a process was killed. No template of XLA's."""

    what: str


_KILOBYTES = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,6})?)\s*(?P<unit>[KMGT]?)i?B")


def _folding(match: re.Match[str], where: Where) -> SlowConstantFolding:
    return SlowConstantFolding(
        where=where, seconds=_seconds(match), operation=text_of(match, "operation")
    )


def _seconds(match: re.Match[str]) -> float:
    factor = {"ms": 1e-3, "m": 60.0, "min": 60.0}.get(match["unit"], 1.0)
    return float(match["time"]) * factor


def _constants(match: re.Match[str], where: Where) -> CapturedConstants:
    """JAX prints decimal units here, as `pprint_bytes` does: 1.00GB is 1e9 bytes."""
    size = _KILOBYTES.fullmatch(" ".join((match["total"] or "").split()))
    if not size:
        return CapturedConstants(where=where, total=None)
    unit = 1000 ** " KMGT".index(size["unit"] or " ")
    decimals = len(size["number"].partition(".")[2])
    total = PrintedSize(round(float(size["number"]) * unit), -(-unit // (2 * 10**decimals)))
    return CapturedConstants(where=where, total=total if unit > 1 else PrintedSize(total.bytes))


def _host_layout(match: re.Match[str], where: Where) -> HostOutputLayout:
    return HostOutputLayout(where=where, tensor=text_of(match, "tensor"))


def _host(match: re.Match[str], where: Where) -> HostOutOfMemory:
    return HostOutOfMemory(where=where, what=" ".join(match[0].split()))


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "T18",
        re.compile(
            spaced(
                r"Some donated buffers were not usable:\s*(?P<buffers>[^\n]*?)(?=\.?\s*(?:\n|\Z"
                r"|See an explanation|Donation is not impl))"
                r"(?:\.?\s*Donation is not implemented for (?P<platform>[^\n]*?)\.?(?=\s*\n|\s*\Z|\s+See))?"
                r"(?:\.?\s*See an explanation at [^\s]+)?"
            )
        ),
        _donation,
    ),
    Pattern(
        "T18",
        re.compile(
            spaced(
                r"Donation requested for invalid buffer|buffer has been deleted or donated"
                r"|Attempt to donate the same buffer twice in Execute\(\)(?: \(flattened argument"
                rf" (?P<argument>{INT}), replica (?P<replica>{INT}), partition (?P<partition>{INT}),"
                rf" first use: (?P<first>{INT})\))?"
            )
        ),
        _donation_failed,
    ),
    pattern(
        "T20",
        _resharding,
        r"\[(?:spmd|SPMD)\] Involuntary full rematerialization\.",
        r"The compile[rd] (?:was not able to|cannot) go from sharding",
        rf"(?P<source>{_SHARDING})",
        rf"to (?P<target>{_SHARDING})",
        r"(?:without doing a full rematerialization of the tensor|efficiently)",
        rf"(?:for HLO operation:? (?P<operation>{_HLO}))?(?:\.(?=\s|\Z)|(?=\n|\Z))",
        r"(?:You probably want to enrich [^\n.]*\.?|As the last resort,[^\n.]*\.?)?",
    ),
    Pattern(
        "T21",
        re.compile(
            spaced(
                rf"(?P<refused>Disallowed )?(?<![\w-]){_SIDES} transfer"
                r"(?(refused)|(?=: (?:aval|shape)=))"
                r"(?::\s*(?:aval=(?P<aval>ShapedArray\([^()\n]*\)|[^\s\[]+\[[^\]\s]*\](?:\{[^\n\s]*\})?)"
                r"(?:, dst_sharding=(?P<sharding>[^\n]*))?"
                r"|shape=\((?P<dims>[\d, ]{0,300})\)(?:, dtype=(?P<dtype>\w+),"
                r"(?: device=(?P<device>\S+))?)?))?"
            )
        ),
        _transfer,
        ("-to-",),
    ),
    pattern(
        "T24",
        _torch,
        r"Post Compilation Analysis:?",
        _torch_piece("Graph input", "inputs"),
        _torch_piece("Graph output", "outputs"),
        _torch_piece("Aliased Input", "aliased"),
        _torch_piece("Intermediate tensor", "intermediate"),
        _torch_piece("Compiled program", "program"),
    ),
    Pattern(
        "T25",
        re.compile(
            spaced(
                r"Constant folding an instruction is taking > (?P<time>\d{1,9}(?:\.\d{1,9})?)"
                r"(?P<unit>ms|min|m|s)(?::\s*(?P<operation>[^\n]*))?"
            )
        ),
        _folding,
    ),
    pattern(
        "T25",
        _constants,
        r"A large amount of constants were captured during lowering",
        r"\((?P<total>[\d.]{1,20} ?[KMGT]?i?B(?:ytes)?) total\)\.?".replace(" ?", r"\s*"),
    ),
    pattern(
        "T26",
        _host_layout,
        r"Tensor which is moved to host",
        r"\(starting from (?P<tensor>[^()\n]{1,400})\)",
        r"is returned from the entry computation but the layout for this output is not set to host"
        r" memory\.?",
    ),
    Pattern(
        "none",
        re.compile(
            spaced(
                r"(?i:exit(?:ed)?(?: with)?(?: exit)?\s*(?:code|status):?\s*137\b(?:\W{1,3}OOM[- ]?killed)?"
                r"|OOM[- ]?killed\b|\boom-kill(?:er)?\b|Out of memory: Killed process)"
            )
        ),
        _host,
        ("137", "illed", "ILLED", "kill", "KILL"),
    ),
)
