"""Messages of real failures with changed names: every answer of every case, read from the text."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vtpu.program.shapes import ArrayShape
from vtpu.reading.messages import Messages, read_messages
from vtpu.reading.messages.gpu import GpuOutOfMemory
from vtpu.reading.messages.hbm_compile import ProgramTooLarge
from vtpu.reading.messages.patterns import Message
from vtpu.reading.messages.tables import Entry, MemoryReport
from vtpu.reading.messages.verdicts import Cause, verdict
from vtpu.reading.messages.vmem_compile import ScopedTooLarge
from vtpu.reading.printed.sizes import PrintedSize, parse_size
from vtpu.units import GIB, KIB, MIB

FOLDER = Path(__file__).with_name("oom_text")
UNITS = {"kib": KIB, "mib": MIB, "gib": GIB}
NAMES = [path.parent.name for path in sorted(FOLDER.glob("*/case.toml"))]
LINES = "one-line-messages"


def load(name: str) -> tuple[dict[str, Any], Messages]:
    fields = tomllib.loads((FOLDER / name / "case.toml").read_text())
    return fields, read_messages((FOLDER / name / "input.txt").read_text())


def in_unit(size: PrintedSize | None, key: str) -> float | None:
    return None if size is None else size.bytes / UNITS[key.rsplit("_", 1)[1]]


def plain(shape: ArrayShape | None) -> str | None:
    return str(shape).split("{")[0] if shape else None


@dataclass(frozen=True)
class Answers:
    """What one case's text says, by the keys of the cases."""

    messages: Messages

    @property
    def message(self) -> Any:
        (message,) = self.messages.found
        return message

    @property
    def report(self) -> MemoryReport:
        assert isinstance(self.message, MemoryReport)
        return self.message

    def get(self, key: str) -> Any:
        stem, _, unit = key.rpartition("_")
        if unit in UNITS:
            return in_unit(self.size(stem), key)
        if key.startswith("entry") and key[5:].isdecimal():
            entry = self.report.entry(int(key[5:]))
            assert entry is not None
            return entry
        return OTHERS[key](self)

    def size(self, name: str) -> PrintedSize | None:
        match self.message:
            case MemoryReport():
                return SIZES[name](self.message)
            case ProgramTooLarge() as short:
                return {
                    "required": short.required,
                    "limit": short.available,
                    "over": short.excess,
                }[name]
            case ScopedTooLarge() as scoped:
                return {"size": scoped.size, "limit": scoped.limit, "over": scoped.over}[name]
            case GpuOutOfMemory() as gpu:
                return {"total": gpu.total}[name]
            case _:
                raise KeyError(name)


def part(name: str) -> Callable[[MemoryReport], PrintedSize | None]:
    def get(report: MemoryReport) -> PrintedSize | None:
        total = report.total()
        return total.size_of(name) if total else None

    return get


def only(report: MemoryReport) -> Entry:
    (entry,) = report.entries
    return entry


SIZES: dict[str, Callable[[MemoryReport], PrintedSize | None]] = {
    "used": lambda r: r.used,
    "limit": lambda r: r.capacity,
    "over": lambda r: r.excess,
    "total": lambda r: r.total().total,
    "reserved": part("reserved"),
    "program": part("program"),
    "arguments": part("arguments"),
    "shares": lambda r: r.total().output.shares,
    "unpadded": lambda r: r.temp.unpadded if r.temp else only(r).unpadded,
    "padded": lambda r: r.temp.padded,
    "fragmentation": lambda r: r.temp.fragmentation,
    "size": lambda r: only(r).size,
    "operand_padded": lambda r: PrintedSize(only(r).operands[0].padded_bytes),
}

OTHERS: dict[str, Callable[[Answers], Any]] = {
    "space": lambda a: getattr(a.message, "space", None) or SPACES[type(a.message)],
    "code": lambda a: a.message.code,
    "module": lambda a: a.message.module,
    "buffers": lambda a: len(getattr(a.message, "buffers", ())),
    "header": lambda a: a.report.has_header,
    "entries": lambda a: entry_numbers(a.report),
    "entry_number": lambda a: only(a.report).number,
    "padding": lambda a: only(a.report).padding.bytes,
    "source": lambda a: only(a.report).operator.source,
    "shape": lambda a: (
        a.message.results[0] if isinstance(a.message, ScopedTooLarge) else only(a.report).shape
    ),
    "operand": lambda a: str(only(a.report).operands[0]),
    "instruction": lambda a: a.message.name,
    "kernel": lambda a: next(e.kernel for e in a.report.entries if e.kernel),
    "block_sizes_in_name": lambda a: any(e.block_sizes for e in a.report.entries),
    "same_label": lambda a: len({e.label for e in a.report.entries}) == 1,
    "truncated": lambda a: a.message.where.is_cut,
    "shares_with_arguments": lambda a: a.report.total().output.shares.bytes,
    "arguments_share_pct": lambda a: a.report.arguments_percent,
    "utilization_pct": lambda a: a.report.temp.utilization_percent,
    "padding_factor": lambda a: a.report.padding_factor,
    "request_bytes": lambda a: a.message.request.bytes,
}
SPACES: dict[type[Message], str] = {ProgramTooLarge: "hbm", GpuOutOfMemory: "gpu"}


def entry_numbers(report: MemoryReport) -> Any:
    """How many entries, or which where the table has holes: as the cases write it."""
    numbers = [entry.number for entry in report.entries]
    return len(numbers) if len(numbers) == 1 else numbers


#: The cause that a case's words mean.
CAUSES = {
    "arguments; nothing donated": Cause.ARGUMENTS,
    "padding": Cause.PADDING,
    "padding: without it 6.62G plus 0.53G fit": Cause.PADDING,
    "real need, no padding": Cause.REAL_NEED,
    "unknown: header missing": Cause.UNKNOWN,
    "unknown: header missing; the operand is padded 32 times": Cause.UNKNOWN,
    "unknown: no table; compile again for the breakdown": Cause.UNKNOWN,
    "compiler: cumulative sum lowered to reduce-window": Cause.COMPILER,
    "whole operands in VMEM": Cause.KERNEL,
    "kernel blocks too large for 64M of VMEM": Cause.KERNEL,
    "the program needs 12 MiB: the memory was full before": Cause.FULL_BEFORE,
    "full": Cause.FULL,
    "fragmentation": Cause.FRAGMENTED,
    "too large at compile time": Cause.TOO_LARGE,
    "SparseCore alone exceeds": Cause.TOO_LARGE,
    "scalar memory; rounding hides the difference, use the over field": Cause.SCALAR_MEMORY,
    "layout mismatch, not out of memory": Cause.LAYOUT,
    "GPU": Cause.GPU,
    "warning: an out-of-memory error is likely to follow": Cause.WARNING,
    "resharding through a full copy": Cause.RESHARDING,
    "transfer guard": Cause.TRANSFER,
    "host memory, not HBM": Cause.HOST,
}
#: Words that the sentence of a verdict has in common with the case's.
WORDS = {
    "hbm-arguments-dominate": "nothing is donated",
    "hbm-joined-lines": "without it the total is",
    "hbm-prefixed-entry": "padded 32 times",
    "hbm-short-e1000": "compile again",
    "hbm-tail-only": "header is missing",
    "gpu-already-full": "needs 12.00 MiB",
    "vmem-scoped-e1001": "whole operands in VMEM",
    "vmem-same-label-twice": "reduce-window",
    "vmem-server-prefix": "PagedAttn",
}


def assert_equal(key: str, found: Any, expected: Any) -> None:
    if isinstance(found, Entry):
        for name, value in expected.items():
            assert_equal(f"{key}.{name}", entry_answer(found, name), value)
    elif isinstance(found, ArrayShape):
        assert plain(found) == expected, key
    elif isinstance(expected, float):
        assert found == pytest.approx(
            expected, abs=0.06 if key.endswith(("pct", "factor")) else 0.011
        )
    else:
        assert found == expected, key


def entry_answer(entry: Entry, key: str) -> Any:
    stem, _, unit = key.rpartition("_")
    if unit in UNITS:
        return in_unit(getattr(entry, stem), key)
    if key == "op_type":
        return entry.operator.op_type
    if key == "padding":
        return entry.padding.bytes
    return getattr(entry, key)


@pytest.mark.parametrize("name", [name for name in NAMES if name != LINES])
def test_a_text_gives_every_answer_of_its_case(name: str) -> None:
    fields, messages = load(name)
    answers = Answers(messages)
    expected = dict(fields["expected"])
    meaning = expected.pop("verdict")

    for key, value in expected.items():
        assert_equal(key, answers.get(key), value)
    found = verdict(answers.message)
    assert found.cause is CAUSES[meaning]
    assert WORDS.get(name, "") in found.sentence


LINE_ANSWERS: dict[str, Callable[[Any], Any]] = {
    "template": lambda m: m.template,
    "request": lambda m: m.request,
    "free": lambda m: m.free,
    "reservable": lambda m: m.reservable,
    "short": lambda m: (
        getattr(m, "short", None) or getattr(m, "excess", None) or PrintedSize(m.excess_bytes)
    ),
    "replica": lambda m: m.replica,
    "partition": lambda m: m.partition,
    "program": lambda m: m.program,
    "phase": lambda m: {"T11": "program load"}[m.template],
    "required": lambda m: m.required,
    "available": lambda m: m.available,
    "tensorcore": lambda m: m.tensorcore,
    "sparsecore": lambda m: m.sparsecore,
    "space": lambda m: m.space,
    "used": lambda m: m.used,
    "limit": lambda m: m.capacity,
    "over": lambda m: m.excess,
    "parameter": lambda m: m.parameter,
    "expected_bytes": lambda m: m.expected_bytes,
    "got_bytes": lambda m: m.got_bytes,
    "ratio": lambda m: m.ratio,
    "target": lambda m: PrintedSize(m.target_bytes),
    "reached": lambda m: PrintedSize(m.reached_bytes),
    "sharding_from": lambda m: m.sharding_from,
    "sharding_to": lambda m: m.sharding_to,
    "op": lambda m: m.operation or "none",
    "direction": lambda m: m.direction,
    "bytes": lambda m: m.logical_bytes,
    "verdict": lambda m: verdict(m).cause,
}


def line_cases() -> list[Any]:
    fields = tomllib.loads((FOLDER / LINES / "case.toml").read_text())
    return [pytest.param(line, id=f"line-{line['number']}") for line in fields["line"]]


@pytest.mark.parametrize("line", line_cases())
def test_a_line_gives_every_answer_of_its_case(line: dict[str, Any]) -> None:
    text = (FOLDER / LINES / "input.txt").read_text().splitlines()[line["number"] - 1]
    (message,) = read_messages(text).found

    for key, value in line.items():
        if key == "number":
            continue
        found = LINE_ANSWERS[key](message)
        if isinstance(found, PrintedSize):
            assert found.may_equal(parse_size(value)), key
        else:
            assert found == (CAUSES[value] if key == "verdict" else value), key
    if line["verdict"].startswith("SparseCore"):
        assert "SparseCore alone" in verdict(message).sentence


def test_messages_in_one_text_are_found_in_their_lines() -> None:
    fields, messages = load(LINES)

    assert [message.where.lines for message in messages.found] == [
        (line["number"], line["number"]) for line in fields["line"]
    ]
    assert messages.unknown == ()


def test_what_is_missing_is_said() -> None:
    problems = {name: " ".join(load(name)[1].problems) for name in NAMES}

    assert "entry 5 is missing" in problems["vmem-same-label-twice"]
    assert "entries 1 to 19 are missing" in problems["hbm-tail-only"]
    assert "first line" in problems["hbm-prefixed-entry"]
    assert "number and size are unknown" in problems["hbm-prefixed-entry"]
    assert "entry 1 ends early" in problems["hbm-old-sum"]
    assert "lines were left out" in problems["vmem-server-prefix"]
    assert problems["hbm-header-without-entries"] == ""
    assert problems["hbm-joined-lines"] == ""


def test_lines_that_belong_to_no_message_are_kept() -> None:
    _, messages = load("hbm-tail-only")

    assert messages.unknown == (
        (8, "The stack trace below excludes JAX-internal frames."),
        (9, "The preceding is the original exception that occurred, unmodified."),
    )
