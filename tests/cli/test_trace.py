"""`vtpu trace` and the profiles that `vtpu run` and `vtpu show` write, as people use them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from running import Bench
from timelines import timeline
from vtpu.reading.xplane.space import Plane, Space
from vtpu.reading.xplane.writing import encode_space
from vtpu.report.profiles.files import write_xspace
from vtpu.report.profiles.xspace import profile_space

PROGRAM = """
import jax, jax.numpy as jnp
def layer(x, w):
    with jax.named_scope("mlp"):
        return jnp.tanh(x @ w), None
@jax.jit
def step(x, ws):
    return jax.lax.scan(layer, x, ws)[0]
x, ws = jnp.ones((256, 256), jnp.bfloat16), jnp.ones((4, 256, 256), jnp.bfloat16)
for _ in range(3):
    x = step(x, ws)
"""


def profile(folder: Path, name: str = "host.xplane.pb", **parts: object) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = encode_space(profile_space(timeline(**parts)))  # pyright: ignore[reportArgumentType]
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def shown(bench: Bench, *arguments: str) -> str:
    ended = bench.vtpu("trace", *arguments)
    assert (ended.exit_code, ended.stderr) == (0, "")
    return ended.stdout


def refused(bench: Bench, *arguments: str) -> str:
    ended = bench.vtpu("trace", *arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("vtpu: ")
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_a_run_writes_a_profile_that_trace_shows(bench):
    ended = bench.vtpu("run", "--on", "v5e-4", "--xprof", "logs", "--perfetto", "t.pftrace",
                       bench.script(PROGRAM))  # fmt: skip
    assert (ended.exit_code, ended.stderr) == (0, "")
    [written] = (bench.folder / "logs/plugins/profile").glob("*/*.xplane.pb")
    assert f"Profile: {written.relative_to(bench.folder)}" in ended.stdout
    assert (bench.folder / "t.pftrace").stat().st_size > 1000
    text = shown(bench, "logs")
    assert "hardware        TPU v5 lite (v5e), 4 cores" in text
    assert "jit_step" in text
    assert "its times are modelled, not measured" in text
    against = json.loads(shown(bench, "logs", "--against", "run.vtpu", "--json", "-"))
    compared = {p["program"]: p for p in against["against"]["programs"]}["jit_step"]
    assert compared["common"] == 1.0
    assert compared["predicted_s"] == pytest.approx(compared["measured_s"], abs=1e-9)
    assert {layer["name"] for layer in compared["layers"]} >= {"mlp"}


def test_a_recording_gives_its_profile_later(bench):
    assert bench.vtpu("run", "--on", "v5e-4", bench.script(PROGRAM)).exit_code == 0
    ended = bench.vtpu("show", "run.vtpu", "--json", "report.json", "--xprof", "logs")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert list((bench.folder / "logs/plugins/profile").glob("*/*.xplane.pb"))


def test_a_profile_that_cannot_be_written_is_refused_before_the_program_runs(bench):
    (bench.folder / "taken").write_text("")
    ended = bench.vtpu("run", "--on", "v5e-4", "--xprof", "taken/logs", bench.script("print(1)"))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("vtpu: no profile can be written to taken/logs")


def test_a_trace_does_not_replace_the_script_that_runs(bench):
    script = bench.script("print(1)")
    ended = bench.vtpu("run", "--perfetto", script, script)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "would replace" in ended.stderr


def test_a_run_that_used_no_device_has_no_profile(bench):
    ended = bench.vtpu("run", "--xprof", "logs", bench.script("print(1)"))
    assert ended.exit_code == 0
    assert "there is no profile: nothing was recorded" in ended.stderr


def test_a_folder_stands_for_the_hosts_of_its_newest_run(bench):
    old = Path(profile(bench.folder, "logs/plugins/profile/a/host-0.xplane.pb", steps=1))
    profile(bench.folder, "logs/plugins/profile/b/host-0.xplane.pb", steps=2)
    profile(bench.folder, "logs/plugins/profile/b/host-1.xplane.pb", steps=2)
    import os

    os.utime(old, (1, 1))
    found = json.loads(shown(bench, "logs", "--json", "-"))
    assert [Path(name).name for name in found["files"]] == ["host-0.xplane.pb", "host-1.xplane.pb"]
    assert found["profile"]["hardware"]["cores"] == 4
    assert found["profile"]["steps"]["count"] == 2


def test_a_packed_profile_is_read(bench):
    assert "jit_step" in shown(bench, profile(bench.folder, "host.xplane.pb.gz"))


def test_json_has_a_basis_for_its_figures(bench):
    found = json.loads(shown(bench, profile(bench.folder), "--json", "-"))
    assert found["schema"] == "vtpu.trace/1"
    assert found["basis"]["profile"] == "modelled"
    operations = found["profile"]["operations"]
    assert sum(o["self_s"] for o in operations) == pytest.approx(
        sum(c["operations_s"] for c in found["profile"]["cores"])
    )


def test_a_profile_becomes_a_trace_for_perfetto(bench):
    shown(bench, profile(bench.folder), "--perfetto", "t.pftrace")
    assert b"/device:TPU:0" in (bench.folder / "t.pftrace").read_bytes()


# ---- bad input ----


def test_a_cut_profile_shows_what_is_before_the_cut(bench):
    path = Path(profile(bench.folder))
    path.write_bytes(path.read_bytes()[:-4000])
    text = shown(bench, str(path))
    assert "the file is cut" in text
    assert "TPU" in text


def test_a_profile_without_devices_says_what_is_missing(bench):
    (bench.folder / "h.xplane.pb").write_bytes(
        encode_space(Space(planes=(Plane(id=1, name="/host:CPU"),)))
    )
    text = shown(bench, "h.xplane.pb")
    assert "no device, the host alone" in text
    assert "only the host was traced" in text


def test_the_other_form_of_a_profile_is_named(bench):
    data = gzip.compress(b'{"displayTimeUnit":"ns","traceEvents":[]}')
    (bench.folder / "host.trace.json.gz").write_bytes(data)
    assert "the *.xplane.pb beside it" in refused(bench, "host.trace.json.gz")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("empty", b"", "an empty file"),
        ("log.txt", b"step 1 loss 2.0\n" * 20, "text that no reader knows"),
        ("run.vtpu", b"vtpu recording 1\nxyz", "name it behind --against"),
        ("image.png", b"\x89PNG\r\n\x1a\n", "an image"),
    ],
)
def test_what_is_no_profile_is_told_by_its_contents(bench, name, data, said):
    (bench.folder / name).write_bytes(data)
    assert said in refused(bench, name)


def test_what_is_not_there_is_a_message(bench):
    assert "does not exist" in refused(bench, "nothing.xplane.pb")
    (bench.folder / "logs").mkdir()
    assert "has no *.xplane.pb in it or below" in refused(bench, "logs")


def test_a_recording_to_compare_with_has_to_be_one(bench):
    path = profile(bench.folder)
    ended = bench.vtpu("trace", path, "--against", path)
    assert ended.exit_code == 2
    assert "not a recording" in ended.stderr


def test_a_trace_never_replaces_what_the_command_reads(bench):
    name = profile(bench.folder)
    before = Path(name).read_bytes()
    assert "would replace" in refused(bench, name, "--perfetto", name)
    assert Path(name).read_bytes() == before


def test_an_older_trace_is_kept(bench):
    target = bench.folder / "older.pftrace"
    target.write_text("mine")
    shown(bench, profile(bench.folder), "--perfetto", str(target))
    assert target.with_name("older.pftrace~").read_text() == "mine"


def test_profiles_of_one_second_are_all_kept(tmp_path):
    first, second = (write_xspace(b"%d" % i, tmp_path, "host", 1e9) for i in range(2))
    assert (first.read_bytes(), second.read_bytes()) == (b"0", b"1")


def test_times_that_vtpu_modelled_are_not_called_measured(bench):
    ended = bench.vtpu("run", "--on", "v5e-1", "--xprof", "logs", bench.script(PROGRAM))
    assert ended.exit_code == 0
    said = shown(bench, "logs", "--against", "run.vtpu")
    assert "in the profile" in said
    assert "measured:" not in said


@pytest.mark.parametrize(
    "command",
    [
        ("show", "run.vtpu", "--json", "run.vtpu"),
        ("replay", "run.vtpu", "--json", "./run.vtpu"),
        ("explain", "run.vtpu", "--json", "run.vtpu"),
        ("diff", "run.vtpu::jit_step", "run.vtpu", "--json", "run.vtpu"),
        ("trace", "logs", "--against", "run.vtpu", "--json", "run.vtpu"),
        ("run", "--perfetto", "same", "--json", "same", "prog.py"),
        ("run", "--out", "same", "--perfetto", "same", "prog.py"),
    ],
)
def test_no_command_replaces_a_file_that_it_reads_or_writes_otherwise(bench, command):
    recording = bench.folder / "run.vtpu"
    recording.write_bytes(b"a recording")
    bench.script("print(1)")
    profile(bench.folder, "logs/plugins/profile/a/host.xplane.pb")
    ended = bench.vtpu(*command)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "would replace" in ended.stderr
    assert recording.read_bytes() == b"a recording"
