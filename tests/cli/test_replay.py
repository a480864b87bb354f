"""`vtpu replay`: its answers to bad input, and its report."""

from __future__ import annotations

import json

import pytest

from running import Bench

SCRIPT = """
import jax, jax.numpy as jnp
step = jax.jit(lambda a: a * 2)
x = jnp.ones((8, 128))
for _ in range(300):
    x = step(x)
"""


@pytest.fixture
def recorded(bench: Bench) -> Bench:
    """A bench with a recording of eight devices on one host."""
    bench.run(SCRIPT)
    return bench


def test_a_run_that_fits_is_shown_over_time(recorded: Bench) -> None:
    ended = recorded.vtpu("replay", "run.vtpu")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.startswith("vtpu replay\n")
    for words in (
        "everything finds room",
        "HBM over the run on device 0",
        "Other assumptions on device 0",
        "public: ",
        "assumed: The TPU runtime's allocator is not public.",
    ):
        assert words in ended.stdout


def test_the_json_stands_in_place_of_the_report_or_beside_it(recorded: Bench) -> None:
    printed = json.loads(recorded.vtpu("replay", "run.vtpu", "--json", "-").stdout)
    beside = recorded.vtpu("replay", "run.vtpu", "--json", "replay.json")
    assert beside.stdout.startswith("vtpu replay\n")
    assert json.loads((recorded.folder / "replay.json").read_text()) == printed
    assert printed["devices"][0]["requests"] == printed["devices"][0]["replayed"] > 600


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--allocator", "arena"], "Invalid value for '--allocator'"),
        (["--on", "v9-8"], "'v9-8' is not a TPU slice"),
        (["--on", "v5e-16"], "8 devices, 8 of them on this host; v5e:4x4 has 16, 4 on a host"),
        (["--on", "v5p-16"], "8 devices, 8 of them on this host; v5p:2x2x2 has 8, 4 on a host"),
        (["--allocator", "bfc", "--fraction", "0"], "--fraction 0 is not a part of memory"),
        (["--allocator", "bfc", "--fraction", "1.5"], "--fraction 1.5 is not a part of memory"),
        (["--allocator", "bfc", "--fraction", "nan"], "--fraction nan is not a part of memory"),
        (["--allocator", "bfc", "--fraction", "half"], "Invalid value for '--fraction'"),
        (["--fraction", "0.5"], "--fraction is for --allocator bfc and growth"),
        (["--json", "missing/replay.json"], "cannot be written to missing/replay.json"),
    ],
)
def test_what_cannot_be_replayed_is_refused(recorded: Bench, options: list[str], said: str) -> None:
    ended = recorded.vtpu("replay", "run.vtpu", *options)
    assert ended.exit_code == 2
    assert said in " ".join(ended.stderr.replace("│", " ").split())
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "other.vtpu cannot be read: No such file or directory"),
        (b"", "other.vtpu is empty: nothing was recorded"),
        (b"print('hello')\n", "other.vtpu is not a recording"),
        (b"vtpu recording 1\n", "was cut or damaged before it said what ran"),
    ],
)
def test_what_is_no_recording_is_refused(bench: Bench, content: bytes | None, said: str) -> None:
    if content is not None:
        (bench.folder / "other.vtpu").write_bytes(content)
    ended = bench.vtpu("replay", "other.vtpu")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_recording_that_is_cut_is_replayed_up_to_the_cut_and_says_so(recorded: Bench) -> None:
    data = (recorded.folder / "run.vtpu").read_bytes()
    said: set[int] = set()
    says_so: list[bool] = []
    for length in range(0, len(data), len(data) // 12):
        (recorded.folder / "cut.vtpu").write_bytes(data[:length])
        ended = recorded.vtpu("replay", "cut.vtpu")
        assert "Traceback" not in ended.stderr
        assert ended.exit_code in (0, 2)
        if ended.exit_code == 0:
            assert "Problems\n" in ended.stdout
            says_so.append("the recording covers the first" in ended.stdout)
        else:
            assert ended.stderr.startswith("vtpu: ")
        said.add(ended.exit_code)
    assert said == {0, 2}
    assert any(says_so)  # none of those that are cut behind the recorded end
