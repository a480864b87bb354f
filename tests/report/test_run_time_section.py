"""The report's section about time: a step, where it goes, and what is not known."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from host_calls import HostCalls, crossing, lasting
from recordings import execute, recording, run_record
from vtpu.analysis.run.summary import RunSummary, summarize
from vtpu.analysis.run.time import Timing
from vtpu.report.json_output import run_as_json
from vtpu.report.run_report import run_document
from vtpu.report.text import print_document
from vtpu.units import format_bytes


def summary(host: HostCalls, speed: float = 1.0, durations=None, **parts) -> RunSummary:
    timing = Timing(host_speed=speed, durations=durations or lasting(step=100))
    return summarize(host.recorded(**parts), timing=timing)


def section(found: RunSummary) -> str:
    out = io.StringIO()
    print_document(run_document(found), out)
    _, _, rest = out.getvalue().partition("\n\nTime\n")
    return re.sub(r" {2,}", "  ", rest.partition("\n\n")[0])


def starved() -> HostCalls:
    host = HostCalls()
    for number in range(1, 11):
        host.blocked(250).send(crossing(100)).execute(awaits=number).read(4)
    return host


def test_a_step_is_shown_with_its_parts_and_what_bounds_it():
    text = section(summary(starved()))
    assert "jit_step  250.0 ms  250.0 ms  250.0 ms" in text
    assert "train.py:12" in text
    for part in (
        "device: busy  100.0 ms  40.0 %",
        "device: idle, the host is blocked  50.0 ms  20.0 %",
        "device: idle, the input is on its way  100.0 ms  40.0 %",
        f"link: to the devices  100.0 ms  40.0 %  {format_bytes(crossing(100))}",
        "The input does not keep up with the device.",
        "modelled: takes, low, high",
    ):
        assert part in text


def test_the_speed_of_the_host_is_said():
    host = HostCalls()
    for _ in range(5):
        host.works(100).execute().read()
    assert "200.0 ms" in section(summary(host))
    faster = section(summary(host, 2.0))
    assert "150.0 ms" in faster
    assert "2 times as fast as this machine (--host-speed)" in faster


def test_what_has_no_time_is_a_warning_and_the_step_a_lower_bound():
    host = HostCalls()
    for number in range(1, 6):
        host.send(10**9).execute(awaits=number).execute(2).read(10**9)
    found = summary(host, run=run_record(slice="v5p:2x2x1", slice_asked="v5p-8"))
    text = section(found)
    assert "at least" in text
    assert "5 executions of 10 have no known time and count as none (jit_other)" in text
    assert "No source gives the rate of these chips' links" in text
    assert "link: to the devices  unknown  unknown  953.67 MiB" in text


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (recording(*(execute(1) for _ in range(3))), "the recording is of an older version"),
        (HostCalls().execute().recorded(), "no program was executed repeatedly"),
    ],
)
def test_why_there_is_no_step_is_said(found, said):
    assert f"No step is known: {said}" in section(summarize(found))


def test_times_are_left_out_for_who_does_not_ask():
    found = summarize(starved().recorded(), timing=None)
    assert found.time is None
    assert section(found) == ""


def test_the_json_has_the_step_in_seconds():
    time = run_as_json(summary(starved()))["time"]
    assert time["step"]["steps"]["median_s"] == pytest.approx(0.25)
    assert time["step"]["steps"]["bound_by"] == "the transfer of the input"
    assert time["step"]["is_input_bound"] is True


def test_other_reports_of_the_run_stay_as_they_are():
    found = summary(starved())
    assert replace(found, time=None) == summarize(starved().recorded(), timing=None)
