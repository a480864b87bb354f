"""`--host-speed` of `vtpu run` and `vtpu show`: the same run on another host."""

from __future__ import annotations

import json

import pytest

from running import Bench, Run

LOOP = """
import time
import jax, numpy as np
step = jax.jit(lambda x: x + 1)
x = np.ones((64, 128), np.float32)
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
for _ in range(12):
    work(0.02)
    np.asarray(step(jax.device_put(x)))
"""


@pytest.fixture
def run(bench: Bench) -> Run:
    """A loop in which the host computes 20 ms for each step of a small program."""
    return bench.run(LOOP, on="v5e-1", VTPU_VALUES="zeros")


def median_s(bench: Bench, *options: str, **more: str) -> float:
    shown = bench.vtpu("show", "run.vtpu", "--json", "-", *options, **more)
    assert (shown.exit_code, shown.stderr) == (0, "")
    return json.loads(shown.stdout)["time"]["step"]["steps"]["median_s"]


def test_the_same_run_is_told_for_another_host(bench: Bench, run: Run) -> None:
    assert run.summary.time.step.program == "jit__lambda"
    assert run.summary.time.step.batch.examples == 64
    assert run.summary.time.step.steps.median_s == median_s(bench)
    here, twice, half = (median_s(bench, "--host-speed", speed) for speed in ("1", "2", "0.5"))
    assert here >= 0.02
    assert 0.01 <= twice < here < half
    assert half >= 0.04
    assert median_s(bench, VTPU_HOST_SPEED="2") == twice
    assert median_s(bench, "--host-speed", "1", VTPU_HOST_SPEED="2") == here


def test_a_host_that_takes_no_time_leaves_the_slice_alone(bench: Bench, run: Run) -> None:
    assert run.summary.time.step.steps.median_s >= 0.02
    assert median_s(bench, "--host-speed", "inf") < 0.002


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "-inf"])
def test_a_speed_that_is_none_is_refused_before_anything_runs(bench: Bench, speed: str) -> None:
    script = bench.script("print('never')")
    ended = bench.vtpu("run", "--host-speed", speed, script)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "twice as fast as this machine" in ended.stderr
