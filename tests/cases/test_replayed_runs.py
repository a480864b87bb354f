"""Cases run and then replayed: the recorded slice gives the run again, others their own answer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from answers import load_case
from running import Bench, Run, source_of
from vtpu.analysis.replay.replay import replay
from vtpu.analysis.replay.requests import RequestKind, requests_of
from vtpu.analysis.run.memory import local_devices
from vtpu.analysis.source_lines import SourceLine
from vtpu.hbm import Arena
from vtpu.recording.events import EventKind
from vtpu.recording.recording import Recording
from vtpu.units import GIB, MIB


def replayed(bench: Bench, *options: str, fits: bool) -> dict[str, Any]:
    """The only device of a replay, and the report it is from as `report`."""
    ended = bench.vtpu("replay", "run.vtpu", *options, "--json", "-")
    assert ended.exit_code == (0 if fits else 1), ended.stderr
    assert ended.stderr == ""
    report = json.loads(ended.stdout)
    assert report["schema"] == "vtpu.replay/1"
    assert report["fits"] is fits
    (device,) = report["devices"]
    return device | {"report": report}


def source(line: dict[str, Any]) -> str:
    return source_of(SourceLine(**line))


def the_same_again(recording: Recording) -> None:
    """Checks that replaying the recorded slice gives the recorded addresses and failures."""
    failures = [e for e in recording.events if e["kind"] == EventKind.FAILURE]
    found = []
    for device in local_devices(recording):
        requests = requests_of(recording, device)
        result = replay(requests, Arena(recording.run.hbm_bytes))
        placed = requests.kind == RequestKind.ALLOCATE
        recorded = recording.events["address"][requests.event[placed]]
        assert np.array_equal(result.address[placed], recorded)
        assert not result.is_cut
        assert result.fitted_attempts == 0
        found += result.failures
    assert [(f.event, f.wanted) for f in found] == [
        (int(row), int(recording.events["bytes"][row]))
        for row in np.flatnonzero(recording.events["kind"] == EventKind.FAILURE)
    ]
    assert len(found) == len(failures)


@pytest.fixture
def holes(bench: Bench) -> Run:
    """The case of free memory in pieces, run."""
    case = load_case("run-holes-between-arrays")
    return bench.run(case.program, on=case.topology)


def test_free_memory_in_pieces_fails_again_and_says_what_is_in_the_way(
    bench: Bench, holes: Run
) -> None:
    expected = load_case("run-holes-between-arrays").expected
    the_same_again(holes.recording)
    device = replayed(bench, fits=False)
    (failure,) = device["failures"]
    assert failure["lack"] == "contiguous bytes"
    assert failure["wanted_bytes"] == expected["request_gib"] * GIB
    assert failure["free_bytes"] / GIB == pytest.approx(expected["free_gib"], abs=0.01)
    assert failure["largest_free_bytes"] == expected["largest_free_gib"] * GIB
    assert failure["is_recorded"]
    assert "big = jnp.zeros((2048, 256 * 1024)" in source(failure["line"])
    (wall,) = failure["in_the_way"]
    assert wall["bytes"] == GIB
    assert "kept.append(jnp.full(" in source(wall["line"])
    assert device["worst"]["fragmentation"] == pytest.approx(1 - 1 / 7.75, abs=0.001)


def test_what_would_have_avoided_the_pieces_is_replayed(bench: Bench, holes: Run) -> None:
    device = replayed(bench, fits=False)
    avoids = {w["kind"]: w["avoids_failure"] for w in device["what_ifs"]}
    assert avoids["reordering"] is avoids["freeing earlier"] is True
    assert avoids["batching"] is False  # one array of 15 GiB leaves too few bytes
    by_assumption = {v["what"]: v["failures"] for v in device["varied"]}
    assert by_assumption["buffers are moved together when one finds no room"] == 0
    assert by_assumption["buffers take the largest free piece"] == 1
    (in_run,) = holes.summary.failures
    assert [w.avoids_failure for w in in_run.what_ifs or ()] == [
        w["avoids_failure"] for w in device["what_ifs"]
    ]
    assert [h.address for h in in_run.in_the_way] == [
        h["address"] for h in device["failures"][0]["in_the_way"]
    ]
    for words in ("in the way", "what if: replayed", "largest piece", "fragmentation"):
        assert words in holes.report_text


@pytest.mark.usefixtures("holes")
def test_pieces_do_not_matter_on_a_chip_with_more_memory(bench: Bench) -> None:
    device = replayed(bench, "--on", "v6e-1", fits=True)
    assert device["fitted"] == 1
    assert device["failures"] == []
    allocator = device["report"]["allocator"]
    assert allocator["slice"] == "v6e:1x1"
    assert any("other layouts" in text for text in allocator["assumptions"])
    shown = bench.vtpu("replay", "run.vtpu", "--on", "v6e-1").stdout
    assert "1 request that found no room in the recorded run fit here" in shown


def test_a_pool_of_three_quarters_is_full_before_the_arrays_are_placed(
    bench: Bench, holes: Run
) -> None:
    device = replayed(bench, "--allocator", "bfc", fits=False)
    (failure,) = device["failures"]
    assert (failure["lack"], failure["is_recorded"]) == ("bytes", False)
    assert "kept.append(jnp.full(" in source(failure["line"])
    assert device["is_cut"]
    assert device["pool_bytes"] == int(holes.summary.hbm[0].limit_bytes * 0.75) // 256 * 256
    whole = replayed(bench, "--allocator", "bfc", "--fraction", "1", fits=False)
    assert whole["failures"][0]["lack"] == "contiguous bytes"


def test_a_program_without_room_lacks_bytes_and_not_one_piece(bench: Bench) -> None:
    case = load_case("run-program-has-no-room")
    run = bench.run(case.program, on=case.topology)
    the_same_again(run.recording)
    device = replayed(bench, fits=False)
    (failure,) = device["failures"]
    assert failure["lack"] == "bytes"
    assert failure["is_reservation"]
    short = failure["wanted_bytes"] - failure["free_bytes"]
    assert short / MIB == pytest.approx(
        case.expected["short_mib"], abs=case.expected["short_tolerance_mib"]
    )
    cache = failure["alive"][0]
    assert (cache["count"], cache["bytes"]) == (24, case.expected["resident_other_gib"] * GIB)
    assert failure["in_the_way"] == []
    assert not any(v["failures"] == 0 for v in device["varied"])  # whatever is assumed
    helps = {w["kind"] for w in device["what_ifs"] if w["avoids_failure"]}
    assert helps == {"freeing unused arrays"}


def test_outputs_kept_in_a_list_grow_step_by_step(bench: Bench) -> None:
    case = load_case("leak-history-of-outputs")
    run = bench.run(case.program, on=case.topology)
    the_same_again(run.recording)
    device = replayed(bench, fits=True)
    after_steps = [m for m in device["series"] if m["program"] == "jit_step"]
    growth = case.expected["growth_bytes_per_step"]
    assert max(m["in_use_bytes"] for m in after_steps) <= 13 * growth + 2 * growth
    assert device["series"][-1]["in_use_bytes"] == case.expected["live_bytes_at_end"]
    the_end = device["report"]["run"]["num_events"]
    assert device["series"][-1]["event"] < the_end


def test_programs_that_are_new_each_time_leave_no_memory_in_use(bench: Bench) -> None:
    case = load_case("leak-one-program-per-shape")
    run = bench.run(case.program, on=case.topology)
    the_same_again(run.recording)
    device = replayed(bench, fits=True)
    assert device["series"][-1]["in_use_bytes"] == 0


def test_a_sharded_program_is_the_same_again_on_all_devices(bench: Bench) -> None:
    case = load_case("shard-batch-left-whole")
    run = bench.run(case.program, on=case.topology)
    the_same_again(run.recording)


UPDATED_IN_TURN = """
import jax, jax.numpy as jnp
update = jax.jit(lambda ws: [w + 1 for w in ws]{donated})
evaluate = jax.jit(lambda x, up, down: jax.nn.gelu(x @ up) @ down)
weights = [jnp.zeros((1024, 256 * 1024)) for _ in range(6)]
x = jnp.ones((65536, 1024), jnp.bfloat16)
up, down = jnp.ones((1024, 32768), jnp.bfloat16), jnp.ones((32768, 1024), jnp.bfloat16)
for step in range(4):
    weights = update(weights)
    evaluate(x, up, down)
"""


def test_donation_that_a_replay_promises_holds_in_the_run(bench: Bench) -> None:
    """Weights of 6 GiB move with each update; temporaries of 4 GiB find no piece beside them."""
    run = bench.run(UPDATED_IN_TURN.format(donated=""), on="v5e:1x1")
    assert run.exit_code == 1
    the_same_again(run.recording)
    device = replayed(bench, fits=False)
    (failure,) = device["failures"]
    assert (failure["lack"], failure["is_reservation"]) == ("contiguous bytes", True)
    assert all(held["address"] < failure["wanted_bytes"] for held in failure["in_the_way"])
    promised = [w for w in device["what_ifs"] if w["avoids_failure"]]
    assert [w["kind"] for w in promised] == ["donation"]
    assert "f32[1024,262144] to jit__lambda" in promised[0]["what"]

    donating = bench.run(UPDATED_IN_TURN.format(donated=", donate_argnums=0"), on="v5e:1x1")
    donating.succeeded()
    the_same_again(donating.recording)
    assert donating.summary.hbm[0].peak_bytes < run.summary.hbm[0].peak_bytes
