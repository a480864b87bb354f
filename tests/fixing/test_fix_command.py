"""`vtpu fix`, as people use it, on small programs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from running import Bench, Ended

PROGRAM = """
import jax
import jax.numpy as jnp

LAYERS, N = 8, 2048

def loss(params, x):
    x, _ = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, params)
    return jnp.square(x).mean()

def update(params, velocity, x):
    grads = jax.grad(loss)(params, x)
    velocity = 0.9 * velocity + grads
    return params - 0.01 * velocity, velocity

step = jax.jit(update)
weights = jax.ShapeDtypeStruct((LAYERS, N, N), jnp.float32)
args = (weights, weights, jax.ShapeDtypeStruct((64, N), jnp.float32))

if __name__ == "__main__":
    params, velocity = jnp.full((LAYERS, N, N), 1e-3), jnp.zeros((LAYERS, N, N))
    x = jnp.ones((64, N))
    for _ in range(4):
        params, velocity = step(params, velocity, x)
    print(float(params.sum()))
"""


def fix(bench: Bench, *arguments: str) -> tuple[Ended, dict[str, Any]]:
    report = bench.folder / "fix.json"
    done = bench.vtpu("fix", *arguments, "--on", "v5e:1x1", "--json", str(report))
    return done, json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}


@pytest.mark.parametrize("target", ["prog.py:step", "prog.py"])
def test_what_helps_is_measured_and_written_only_when_asked(bench: Bench, target: str) -> None:
    bench.script(PROGRAM)
    done, found = fix(bench, target)
    assert (done.exit_code, done.stderr) == (0, "")
    assert (bench.folder / "prog.py").read_text() == PROGRAM
    best = next(a for a in found["attempts"] if a["number"] == found["best"])
    donating = [a for a in found["attempts"] if [c["kind"] for c in a["changes"]] == ["donate"]]
    assert donating[0]["verdict"] in ("helped", "best")
    assert donating[0]["figures"]["peak_bytes"] < 0.8 * found["baseline"]["peak_bytes"]
    assert best["figures"]["peak_bytes"] <= donating[0]["figures"]["peak_bytes"]
    assert best["comparison"]["results"] in ("identical", "equal within tolerance")
    assert "+step = jax.jit(update, donate_argn" in donating[0]["diff"]

    number = str(donating[0]["number"])
    applied = bench.vtpu("fix", target, "--on", "v5e:1x1", "--apply", number)
    assert applied.exit_code == 0, applied.stderr
    assert "jax.jit(update, donate_argn" in (bench.folder / "prog.py").read_text()
    assert (bench.folder / "prog.py~").read_text() == PROGRAM
    again = bench.vtpu("fix", target, "--on", "v5e:1x1", "--apply", number)
    assert again.exit_code == 2
    assert "has changed since" in again.stderr


def test_a_search_ends_after_so_many_new_compiles(bench: Bench) -> None:
    bench.script(PROGRAM.replace("8, 2048", "2, 256"))
    report = bench.folder / "fix.json"
    words = ("fix", "prog.py:step", "--on", "v5e:1x1", "--compiles", "2", "--json", str(report))
    done = bench.vtpu(*words, VTPU_CACHE_DIR=str(bench.folder / "cache"))
    found = json.loads(report.read_text())
    assert 1 <= found["compiles"] <= 3  # one may be under way
    assert found["untried"]
    assert "The limit was reached" in done.stdout


def test_a_script_that_compiles_nothing_is_told(bench: Bench) -> None:
    bench.script("print(1)\n")
    done, found = fix(bench, "prog.py")
    assert done.exit_code == 2
    assert "compiled nothing" in done.stderr
    assert not found


def test_a_program_that_fails_as_it_is_is_told_with_its_error(bench: Bench) -> None:
    bench.script("import jax\njax.numpy.ones(3)\nraise ValueError('no data')\n")
    done, _ = fix(bench, "prog.py")
    assert done.exit_code == 2
    assert "no data" in done.stderr
    assert "prog.py:3)" in done.stderr


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("def f(:\n", "prog.py", "prog.py:1)"),
        ("def f(:\n", "prog.py:f", "line 1"),
        ("", "other.py", "there is no script other.py"),
        ("x = 1\n", "prog.py:f", "prog has no f"),
    ],
    ids=["syntax", "syntax of a module", "no script", "no function"],
)
def test_what_is_wrong_with_a_program_is_said_with_its_line(
    bench: Bench, text: str, target: str, said: str
) -> None:
    bench.script(text)
    done, _ = fix(bench, target)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "UsageError" not in done.stderr


def test_too_little_time_is_said_to_be_that(bench: Bench) -> None:
    bench.script(PROGRAM)
    done = bench.vtpu("fix", "prog.py:step", "--on", "v5e:1x1", "--within", "0.2s")
    assert done.exit_code == 2
    assert "the time was up (--within) before prog.py:step was measured" in done.stderr


def test_a_change_that_was_never_tried_cannot_be_applied(bench: Bench) -> None:
    bench.script(PROGRAM)
    done = bench.vtpu("fix", "prog.py:step", "--on", "v5e:2x2", "--apply", "1")
    assert done.exit_code == 2
    assert "nothing was tried yet" in done.stderr


def begun(bench: Bench, *more: str) -> subprocess.Popen[str]:
    """A search that has just begun, and keeps what it needs in the folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "vtpu", "fix", "prog.py:step", "--on", "v5e:1x1", *more],
        cwd=bench.folder,
        env={**bench.environment, "TMPDIR": str(bench.folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_found_is_kept_when_it_is_ended(bench: Bench, number: signal.Signals) -> None:
    bench.script(PROGRAM)
    process = begun(bench, "--json", "f.json")
    while process.poll() is None and not list(bench.folder.glob("vtpu-fix-*/2")):
        time.sleep(0.05)  # until the second trial has begun
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    assert process.returncode in (0, 1)
    assert "vtpu fix" in out
    assert json.loads((bench.folder / "f.json").read_text())["baseline"]["fits"]
    assert not list(bench.folder.glob("vtpu-fix-*"))  # nor a trial that still runs


def test_ended_before_anything_is_known_it_leaves_no_process(bench: Bench) -> None:
    bench.script(PROGRAM)
    process = begun(bench)
    while process.poll() is None and not list(bench.folder.glob("vtpu-fix-*/1/spec.json")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if _mentions(p, str(bench.folder))]


def _mentions(command: Path, text: str) -> bool:
    try:
        return text.encode() in command.read_bytes()
    except OSError:  # it ended meanwhile
        return False
