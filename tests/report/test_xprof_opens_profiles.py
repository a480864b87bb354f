"""XProf on our profiles: every tool opens them, and its sums are ours.

It runs where the package is installed, or where `VTPU_XPROF_PYTHON` names a Python that has it
(`pip install xprof`, some 300 MB, best in an environment of its own).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from timelines import timed, timeline
from vtpu.analysis.measured.summary import summarize_profile
from vtpu.reading.xplane.reading import ReadProfile
from vtpu.reading.xplane.space import Space
from vtpu.reading.xplane.writing import encode_space
from vtpu.report.profiles.files import write_xspace
from vtpu.report.profiles.xspace import profile_space

TOOLS = Path(__file__).parents[1] / "xprof_tools.py"
_OWN = sys.executable if importlib.util.find_spec("xprof") else ""
PYTHON = os.environ.get("VTPU_XPROF_PYTHON") or _OWN
STEPS, DEVICES, TRIPS = 3, 2, 9

pytestmark = pytest.mark.skipif(not PYTHON, reason="no Python with xprof: see VTPU_XPROF_PYTHON")


def asked(space: Space, folder: Path) -> dict[str, Any]:
    """What XProf says of a profile."""
    path = write_xspace(encode_space(space), folder, "host-0", 1_700_000_000.0)
    ended = subprocess.run(
        [PYTHON, str(TOOLS), str(path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def space() -> Space:
    return profile_space(timeline(STEPS, DEVICES, TRIPS))


@pytest.fixture(scope="module")
def xprof(space: Space, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return asked(space, tmp_path_factory.mktemp("profile"))


def sums(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Own microseconds by operation."""
    found: dict[str, float] = {}
    for row in rows:
        name = row["hlo_op_name"]
        found[name] = found.get(name, 0.0) + row["total_self_time"]
    return found


def test_all_tools_for_a_tpu_are_offered(xprof):
    assert {
        "overview_page", "op_profile", "hlo_stats", "roofline_model", "memory_viewer",
        "graph_viewer", "trace_viewer@", "input_pipeline_analyzer",
    } <= set(xprof["tools"])  # fmt: skip


def test_the_overview_has_the_steps_and_their_time(xprof):
    seconds = timed(TRIPS).time.total.seconds
    assert [row["stepnum"] for row in xprof["steps"]] == ["0", "1", "2"]
    assert all(
        row["tcComputeTimeMs"] == pytest.approx(seconds * 1e3, rel=1e-3) for row in xprof["steps"]
    )
    assert float(xprof["facts"]["steptime_ms_maximum"]) == pytest.approx(
        seconds * 1e3 + 1, rel=1e-2
    )
    assert xprof["facts"]["device_type"] == "TPU v5 lite"
    assert xprof["facts"]["device_core_count"] == str(DEVICES)
    assert xprof["facts"]["is_training"] == "true"


def test_steps_without_a_gap_have_their_own_operations(tmp_path):
    seconds = timed(TRIPS).time.total.seconds
    found = asked(profile_space(timeline(STEPS, DEVICES, TRIPS, gap_s=0.0)), tmp_path)
    assert [row["tcComputeTimeMs"] for row in found["steps"]] == [
        pytest.approx(seconds * 1e3, rel=1e-3) for _ in range(STEPS)
    ]


def test_the_overview_says_that_times_are_modelled_and_nothing_else_is_wrong(xprof):
    [said] = xprof["diagnostics"]
    assert said["severity"] == "WARNING"
    assert "modelled, not measured" in said["message"]


def test_operations_take_what_they_take_in_our_tables(xprof, space):
    ours = summarize_profile([ReadProfile(space)]).operations
    theirs = sums(xprof["hlo_stats"])
    assert theirs == pytest.approx({o.name: o.self_s * 1e6 for o in ours}, abs=1e-3)
    counts = {row["hlo_op_name"]: row["occurrences"] for row in xprof["hlo_stats"]}
    assert counts == {o.name: o.count for o in ours}


def test_the_times_of_all_operations_are_the_executions(xprof):
    whole = timed(TRIPS).time.total.seconds * STEPS * DEVICES
    assert sum(sums(xprof["hlo_stats"]).values()) == pytest.approx(whole * 1e6, rel=1e-6)
    assert xprof["op_profile"]["rawTime"] == pytest.approx(whole * 1e12, rel=1e-6)
    assert xprof["op_profile"]["rawFlops"] == timed(TRIPS).time.flops * STEPS * DEVICES
    assert xprof["op_profile"]["bandwidthUtils"][0] > 0


def test_operations_have_sources_names_and_categories(xprof):
    named = [row for row in xprof["hlo_stats"] if row["tf_op_name"]]
    assert named
    assert any("source-info-cell" in (row["source_info"] or "") for row in named)
    assert {"loop fusion", "convolution fusion"} <= {row["category"] for row in named}


def test_the_roofline_has_the_chips_peaks(xprof):
    assert float(xprof["roofline_facts"]["peak_flop_rate"]) == 197_000
    assert float(xprof["roofline_facts"]["peak_hbm_bw"]) == pytest.approx(819e9 / 2**30, rel=1e-3)
    assert len(xprof["roofline"]) > 20


def test_the_memory_viewer_finds_the_modules_peak(xprof):
    oracle = json.loads((TOOLS.parent / "analysis/dumps/xprof.json").read_text())
    [peak] = xprof["memory"].values()
    assert peak * 2**20 == pytest.approx(oracle["scan_v5e"]["HBM"]["peak_bytes"])


def test_the_trace_viewer_has_every_line(xprof, space):
    plane = space.plane("/device:TPU:0")
    for line in plane.lines:
        if line.name == "Async XLA Ops":  # drawn in another way
            continue
        assert xprof["trace"][f"/device:TPU:0 {line.name}"] == len(line.events)
    assert xprof["trace"]["/device:TPU:0 Framework Name Scope"] > 0  # made of the names of JAX


@pytest.mark.parametrize("most", [800, 100, 1])
def test_with_fewer_events_xprofs_sums_are_the_same(xprof, most, tmp_path):
    fewer = asked(profile_space(timeline(STEPS, DEVICES, TRIPS), most), tmp_path)
    assert sum(fewer["trace"].values()) < sum(xprof["trace"].values())
    for name in ("rawTime", "rawFlops"):
        assert fewer["op_profile"][name] == pytest.approx(xprof["op_profile"][name], rel=1e-9)
    bytes_of = fewer["op_profile"]["rawBytesAccessedArray"][0]
    assert bytes_of == pytest.approx(xprof["op_profile"]["rawBytesAccessedArray"][0], rel=1e-3)
