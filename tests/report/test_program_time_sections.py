"""A program's time as people and programs read it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from timed_programs import Compute, Event, Loop, Start, Sync, events, timed
from vtpu.analysis.program.report import Origin, ProgramReport, report_program
from vtpu.clock.program_time import Lane, ProgramTime
from vtpu.clock.resources import Resource
from vtpu.evidence import Basis
from vtpu.program.memory import BufferAssignment, ProgramMemory
from vtpu.program.modules import Module
from vtpu.report.document import Table
from vtpu.report.program_json import program_as_json
from vtpu.report.program_report import program_document, program_sections
from vtpu.report.text import print_document

MXU, VPU, HBM = Resource.MXU, Resource.VPU, Resource.HBM
STEP: list[Event] = [
    Start(Lane.MEMORY, 30, 2),
    Compute({MXU: 200, HBM: 60}),
    Loop((Compute({VPU: 40, HBM: 30}), Sync(20)), 3),
    Compute({HBM: 20}),
]


def report_of(module: Module, time: ProgramTime | None) -> ProgramReport:
    memory = ProgramMemory(module=module, assignment=BufferAssignment(buffers={}, allocations=()))
    return report_program(memory, Origin(name="step"), fits=True, time=time)


def text_of(report: ProgramReport) -> str:
    out = io.StringIO()
    print_document(program_document(report), out)
    return out.getvalue()


def json_of(report: ProgramReport) -> dict[str, Any]:
    return json.loads(json.dumps(program_as_json(report)))


def test_the_report_says_how_long_a_step_takes_and_what_bounds_it() -> None:
    text = text_of(report_of(*timed(STEP)))
    assert text.count("400.0 ms (modelled), expected 360.0 ms to 440.0 ms") == 2
    assert "MXU, 50 % of the step" in text
    assert "60.0 ms (15.0 % of the step)" in text  # waits for collectives
    assert "train.py:" in text
    assert "made up" in text  # the calibration


def test_without_a_model_the_report_says_nothing_of_time() -> None:
    report = report_of(timed(STEP)[0], None)
    assert "modelled" not in text_of(report)
    assert json_of(report)["time"] is None


def test_every_time_in_a_table_says_that_it_is_modelled() -> None:
    report = report_of(*timed(STEP))
    tables = [
        block
        for section in program_sections(report)
        for block in section.blocks
        if isinstance(block, Table)
    ]
    columns = {c.heading: c.basis for table in tables for c in table.columns}
    assert len(tables) == 7
    for heading in ("time", "bounds", "step without it", "exposed", "on the path", "of peak"):
        assert columns[heading] is Basis.MODELLED


@given(events)
@settings(max_examples=60, deadline=None)
def test_the_json_report_sums_to_the_step(made: list[Event]) -> None:
    report = report_of(*timed(made))
    text_of(report)
    time = json_of(report)["time"]
    rest = time["idle_s"]
    for name in ("operations", "phases", "layers", "kinds"):
        assert sum(row["seconds"] for row in time[name]) + rest == pytest.approx(time["seconds"])
    assert sum(row["seconds"] for row in time["critical_path"]) == pytest.approx(time["seconds"])
    assert sum(row["seconds"] for row in time["bounds"]) == pytest.approx(time["seconds"])
    assert sum(row["flops"] for row in time["operations"]) == time["flops"]


def test_operations_without_a_model_are_named_beside_the_total() -> None:
    module, time = timed([Compute({MXU: 200}), Compute({MXU: 100, HBM: 100})])
    _, second = time.operations
    unknown = replace(time.operations[second], time=None, bound=None, busy={}, flops=None)
    shorter = replace(
        time,
        operations={**time.operations, second: unknown},
        without_model=(second,),
        unmodelled_bytes=unknown.hbm_bytes or 0,
    )
    report = report_of(module, shorter)
    name = module.by_id[second].name
    assert "1 operation without a model: FLOPs that nobody knows and" in text_of(report)
    assert f"({name})" in text_of(report)
    without = json_of(report)["time"]["without_model"]
    assert (without["operations"], without["flops"]) == ([name], None)
    assert without["hbm_bytes"] == unknown.hbm_bytes


def test_a_loop_of_which_nothing_tells_how_often_it_runs_is_named() -> None:
    module, time = timed([Loop((Compute({VPU: 40}),), 1)])
    (loop,) = [i for i in module.by_id.values() if i.opcode == "while"]
    report = report_of(module, replace(time, uncounted_loops=(loop.id,)))
    assert (
        f"How often 1 loop runs cannot be told before it runs: one run is in this time ({loop.name})"
        in (" ".join(text_of(report).split()))
    )
    assert json_of(report)["time"]["loops_that_count_once"] == [loop.name]
