"""`vtpu diff` of real recordings: one script with another batch, element type or donation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from running import Bench, Ended

SCRIPT = """
import jax, jax.numpy as jnp

def loss(params, x):
    with jax.named_scope("block"):
        x = jax.nn.gelu(x @ params["w"])
    return jnp.mean(x.astype(jnp.float32) ** 2)

def step(params, x):
    grads = jax.grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - g, params, grads)

step = jax.jit(step, donate_argnums={donated})
params = {{"w": jnp.ones((512, 512), "{dtype}")}}
for _ in range({steps}):
    params = step(params, jnp.ones(({batch}, 512), "{dtype}"))
params["w"].block_until_ready()
"""
PLAIN = {"donated": "()", "dtype": "float32", "steps": "2", "batch": "64"}
WEIGHT, ROW = 512 * 512 * 4, 512 * 4


class Recorded:
    """Runs the script in variants, each into a recording of its own."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def __call__(self, name: str, text: str = SCRIPT, **changes: str) -> str:
        script = self.bench.script(text.format(**{**PLAIN, **changes}))
        ended = self.bench.vtpu("run", "--on", "v5e-1", "--out", name, script)
        assert ended.exit_code == 0, ended.stderr
        return name

    def diff(self, before: str, after: str):
        """The comparison as JSON."""
        ended = self.bench.vtpu("diff", before, after, "--json", "-")
        assert (ended.exit_code, ended.stderr) == (0, "")
        return json.loads(ended.stdout)

    def hbm(self, before: str, after: str):
        """HBM of the step in both."""
        value = self.diff(f"{before}::jit_step", f"{after}::jit_step")
        assert value["schema"] == "vtpu.diff/1"
        return value["memory"]["spaces"][0]


@pytest.fixture
def recorded(bench: Bench) -> Recorded:
    return Recorded(bench)


def deltas(pairs) -> dict[str, int]:
    return {(p["after"] or p["before"])["name"]: p["delta_bytes"] for p in pairs}


def test_two_runs_of_one_script_do_not_differ(bench: Bench, recorded: Recorded) -> None:
    one, other = recorded("one.vtpu"), recorded("other.vtpu")
    ended = bench.vtpu("diff", one, other)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "Nothing differs" in ended.stdout
    assert not recorded.diff(one, other)["differs"]
    shown = bench.vtpu("diff", f"{one}::jit_step", f"{other}::jit_step")
    assert "Nothing differs" in shown.stdout


def test_lines_that_moved_are_no_difference(bench: Bench, recorded: Recorded) -> None:
    one, other = recorded("one.vtpu"), recorded("other.vtpu", "# a comment\n\n" + SCRIPT)
    assert "Nothing differs" in bench.vtpu("diff", one, other).stdout


def test_a_larger_batch_grows_the_batch_alone(recorded: Recorded) -> None:
    one, other = recorded("one.vtpu"), recorded("other.vtpu", batch="4096")
    hbm = recorded.hbm(one, other)
    grown = (4096 - 64) * ROW
    assert deltas(hbm["by_argument"])["x"] == grown
    assert deltas(hbm["by_role"])["batch"] == grown
    assert "params['w']" not in deltas(hbm["by_argument"])
    for name in ("by_argument", "by_role", "by_layer", "by_line", "by_dtype", "buffers"):
        assert sum(p["delta_bytes"] for p in hbm[name]) == hbm["peak_bytes"]["delta"]

    runs = recorded.diff(one, other)["runs"]
    assert runs["settings"] == []
    assert runs["devices"][0]["peak_bytes"]["delta"] >= grown
    step = next(p for p in runs["programs"] if p["programs"]["after"]["name"] == "jit_step")
    assert step["programs"]["change"] == "grown"
    assert step["memory"]["spaces"][0] == hbm


def test_donation_takes_the_result_away(recorded: Recorded) -> None:
    hbm = recorded.hbm(recorded("one.vtpu"), recorded("other.vtpu", donated="(0,)"))
    assert deltas(hbm["by_role"])["output"] == -WEIGHT
    (weight,) = [p for p in hbm["buffers"] if p["before"] and p["before"]["name"] == "params['w']"]
    assert (weight["before"]["is_donated"], weight["after"]["is_donated"]) == (False, True)


def test_bf16_halves_the_arguments(recorded: Recorded) -> None:
    hbm = recorded.hbm(recorded("one.vtpu"), recorded("other.vtpu", dtype="bfloat16"))
    assert deltas(hbm["by_argument"])["params['w']"] == -WEIGHT // 2
    by_dtype = deltas(hbm["by_dtype"])
    assert by_dtype["bf16"] > 0 > by_dtype["f32"]


def test_more_steps_are_more_calls_and_transfers(bench: Bench, recorded: Recorded) -> None:
    one, other = recorded("one.vtpu"), recorded("other.vtpu", steps="5")
    runs = recorded.diff(one, other)["runs"]
    step = next(p for p in runs["programs"] if p["programs"]["after"]["name"] == "jit_step")
    assert (step["programs"]["before"]["calls"], step["programs"]["after"]["calls"]) == (2, 5)
    assert step["memory"] is None  # the same program
    assert "2 → 5" in bench.vtpu("diff", one, other).stdout


def test_another_slice_is_named_first(bench: Bench, recorded: Recorded) -> None:
    recorded("one.vtpu")
    bench.vtpu("run", "--on", "v6e-1", "--out", "other.vtpu", "prog.py")
    text = bench.vtpu("diff", "one.vtpu", "other.vtpu").stdout
    assert text.index("v6e:1x1") < text.index("\nPrograms\n")


# ---- other inputs ------------------------------------------------------------------------------


def test_the_json_of_a_check_is_compared_as_the_program(bench: Bench, recorded: Recorded) -> None:
    function = SCRIPT.partition("params = {{")[0].format(**PLAIN)
    arguments = """
args = ({{"w": jax.ShapeDtypeStruct((512, 512), "float32")}}, jax.ShapeDtypeStruct(({batch}, 512), "float32"))
"""
    for name, batch in (("one", 64), ("other", 128)):
        (bench.folder / f"{name}.py").write_text(function + arguments.format(batch=batch))
        checked = bench.vtpu("check", f"{name}.py:step", "--on", "v5e-1", "--json", f"{name}.json")
        assert checked.exit_code == 0, checked.stderr
    assert not recorded.diff("one.json", "one.json")["differs"]
    hbm = recorded.diff("one.json", "other.json")["memory"]["spaces"][0]
    assert deltas(hbm["by_argument"])["x"] == 64 * ROW


def test_a_dump_is_compared_with_a_recording(bench: Bench, recorded: Recorded) -> None:
    # what the recording keeps of a program is what the compiler dumps
    import zlib

    from vtpu.analysis.run.programs import largest_program
    from vtpu.reading.wire import find_bytes, write_field
    from vtpu.recording.file import load_recording

    recorded("one.vtpu")
    found = load_recording(bench.folder / "one.vtpu").programs
    program = largest_program(p for p in found if p.name == "jit_step")
    module = find_bytes(zlib.decompress(program.hlo), 1)
    dump = write_field(1, module) + write_field(3, zlib.decompress(program.assignment))
    folder = bench.folder / "dump"
    folder.mkdir()
    (folder / "module_0001.jit_step.v5e.after_optimizations.hlo.pb").write_bytes(dump)
    for name in ("dump", "dump::jit_step"):
        hbm = recorded.diff("one.vtpu::jit_step", name)["memory"]["spaces"][0]
        assert hbm["total_bytes"]["delta"] == hbm["peak_bytes"]["delta"] == 0
        assert hbm["by_argument"] == hbm["by_dtype"] == []


def refused(ended: Ended, *said: str) -> None:
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("vtpu: ")
    assert "Traceback" not in ended.stderr
    for text in said:
        assert text in ended.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"hello, world\n", "is nothing that can be compared"),
        (bytes(range(256)), "is nothing that can be compared"),
        (b"{", "is damaged JSON"),
        (b'{"schema": "vtpu.run/1"}', "not of `vtpu check --json`"),
        (b'{"schema": "vtpu.program/1"}', "is damaged"),
        (b'{"schema": "vtpu.program/1", "program_order": [], "spaces": [7]}', "is damaged"),
        (b"vtpu recording 9\n", "is not a recording of this version"),
        (b"\n\x00", "is nothing that can be compared"),
    ],
)
def test_what_cannot_be_compared_is_refused(bench: Bench, content: bytes, said: str) -> None:
    (bench.folder / "bad").write_bytes(content)
    refused(bench.vtpu("diff", "bad", "bad"), "bad ", said)


def test_what_is_not_there_is_refused(bench: Bench, recorded: Recorded, tmp_path: Path) -> None:
    one = recorded("one.vtpu")
    (tmp_path / "folder").mkdir(exist_ok=True)
    refused(bench.vtpu("diff", one, "missing.vtpu"), "missing.vtpu cannot be read: No such file")
    refused(bench.vtpu("diff", one, f"{one}::jit_step"), "name a program of the recording")
    refused(bench.vtpu("diff", f"{one}::jit_none", one), "no program jit_none", "jit_step")
    refused(bench.vtpu("diff", "folder", one), "after_optimizations.hlo.pb")
    refused(bench.vtpu("diff", "prog.py::f", one), "is no recording")
    assert bench.vtpu("diff", one).exit_code == 2
