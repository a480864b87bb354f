"""The report of a sweep over sizes of the batch: the largest that fits, what each one needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vtpu.analysis.program.batch_fit import BatchCandidate, BatchSweep
from vtpu.evidence import Basis
from vtpu.report.document import (
    Block,
    Bytes,
    Cell,
    Column,
    Count,
    Document,
    Facts,
    NoFigure,
    Note,
    Section,
    Table,
)
from vtpu.units import counted, format_bytes, format_count

BATCH_SCHEMA = "vtpu.batch/1"

#: Where the figures come from, by path into the JSON.
BATCH_BASIS = {"limit_bytes": Basis.COMPILER, "candidates": Basis.COMPILER}


def batch_as_json(sweep: BatchSweep) -> dict[str, Any]:
    """The JSON value of a sweep. What is not known is null."""
    value = asdict(sweep)
    candidates = value.pop("candidates")
    return {
        "schema": BATCH_SCHEMA,
        "basis": {path: str(basis) for path, basis in BATCH_BASIS.items()},
        **value,
        "largest": sweep.largest,
        "best": sweep.best,
        "next_above": sweep.next_above,
        "candidates": [
            {**row, "pads_nothing": candidate.pads_nothing}
            for row, candidate in zip(candidates, sweep.candidates, strict=True)
        ],
    }


def batch_document(sweep: BatchSweep) -> Document:
    """The sweep as a report."""
    return Document("vtpu fit_batch", (_answer(sweep), _candidates(sweep)))


def _answer(sweep: BatchSweep) -> Section:
    pairs: list[tuple[str, Cell]] = [
        ("program", sweep.name),
        (
            "compiled for",
            f"{sweep.slice}, at {counted(len(sweep.candidates), 'size')} of the batch",
        ),
        ("versions", " · ".join(f"{n} {v}" for n, v in sweep.versions.items())),
        ("scaled", "; ".join(sweep.scales)),
    ]
    if sweep.step > 1:
        pairs.append(("multiples of", Count(sweep.step)))
    if sweep.limit_bytes is not None:
        margin = f", of which {format_bytes(sweep.margin_bytes)} stay free"
        pairs.append(("may have", f"{format_bytes(sweep.limit_bytes)} per device{margin}"))
    pairs += [("largest", _largest(sweep)), ("best for tiles", _best(sweep))]
    blocks: list[Block] = [Facts(tuple(pairs)), *(Note(text) for text in _remarks(sweep))]
    return Section("How large a batch fits", tuple(blocks))


def _largest(sweep: BatchSweep) -> str:
    if sweep.largest is None:
        return "none of those that were compiled fits"
    above = sweep.next_above
    if above is None:
        return f"{format_count(sweep.largest)} fits; nothing larger was compiled"
    return f"{format_count(sweep.largest)}; {format_count(above)} does not fit"


def _best(sweep: BatchSweep) -> str:
    multiple = f" (multiples of {format_count(sweep.tile_multiple)})" if sweep.tile_multiple else ""
    if sweep.best is None:
        return f"none of those that were compiled fits and fills the tiles{multiple}"
    return f"{format_count(sweep.best)}{multiple}"


def _remarks(sweep: BatchSweep) -> list[str]:
    remarks = ["Each size was compiled; as memory is not monotonic, nothing is known of others."]
    if len(sweep.candidates) >= sweep.most_compiles:
        compiles = counted(sweep.most_compiles, "compile")
        remarks.append(f"The search stopped at {compiles} (most_compiles).")
    return remarks


def _candidates(sweep: BatchSweep) -> Section:
    compiled = Basis.COMPILER
    columns = (
        Column("batch"),
        Column("fits"),
        Column("needs", compiled),
        Column("per example", compiled),
        Column("padding", compiled),
        Column("by the batch", compiled),
        Column("temporaries", compiled),
        Column("taken by a step", compiled),
        Column("allocations", compiled),
        Column("error", wraps=True, is_minor=True),
    )
    rows = tuple(_row(c) for c in sweep.candidates)
    note = Note(
        "HBM per device. Per example: the difference to the size above it in the table. By the batch: "
        "padding of dimensions that grow with it. Taken by a step: results that are not donated, and "
        "temporaries, which an execution allocates at run time."
    )
    return Section("Sizes of the batch", (Table(columns, rows), note))


def _row(candidate: BatchCandidate) -> tuple[Cell, ...]:
    sizes = (
        candidate.need_bytes,
        candidate.bytes_per_example,
        candidate.padding_bytes,
        candidate.batch_padding_bytes,
        candidate.temp_bytes,
        candidate.allocated_bytes,
    )
    return (
        Count(candidate.batch),
        "yes" if candidate.fits else "no",
        *(NoFigure() if size is None else Bytes(size) for size in sizes),
        NoFigure() if candidate.allocations is None else Count(candidate.allocations),
        candidate.error or "" if candidate.need_bytes is None else "",
    )
