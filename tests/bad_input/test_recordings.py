"""`vtpu show` of what is cut, damaged or no recording."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from running import REPORT_HEADING, Bench, Ended, Run, read_report
from vtpu.analysis.run.summary import summarize
from vtpu.recording.file import MAGIC, NotARecording, load_recording, parse_recording

SCRIPT = """
import jax, jax.numpy as jnp
step = jax.jit(lambda a: a * 2)
x = jnp.ones((8, 128))
for _ in range(3000):
    x = step(x)
"""


@pytest.fixture
def run(bench: Bench) -> Run:
    """A run with a few thousand events."""
    return bench.run(SCRIPT)


def test_show_gives_the_report_of_the_run_again(bench: Bench, run: Run) -> None:
    shown = bench.vtpu("show", "run.vtpu")
    shown.succeeded()
    assert lines_of(shown) == lines_of(run)

    report = bench.folder / "shown.json"
    bench.vtpu("show", "run.vtpu", "--json", str(report)).succeeded()
    # A recording does not tell whether its run led to others.
    assert run.summary.other_recordings == ()
    assert read_report(report) == replace(run.summary, other_recordings=None)


def lines_of(ended: Ended) -> list[str]:
    """The lines of a report, but for the one with the recording's path."""
    return [line for line in ended.report_text.splitlines() if not line.startswith("  recording ")]


def test_a_recording_cut_anywhere_loads_up_to_the_cut(run: Run) -> None:
    whole = run.recording
    data = run.recording_path.read_bytes()
    lengths = sorted({*range(0, 200, 7), *range(0, len(data), len(data) // 150), len(data) - 1})
    known = 0
    for length in lengths:
        try:
            cut = parse_recording(data[:length])
        except NotARecording:
            assert known == 0  # only while it is not known what ran
            continue
        known = max(known, len(cut.events))
        assert len(cut.events) == known
        assert np.array_equal(cut.events, whole.events[:known])
        assert cut.programs == whole.programs[: len(cut.programs)]
        assert cut.stacks == whole.stacks[: len(cut.stacks)]
        assert cut.end is None or (cut.end == whole.end and known == len(whole.events))
        summarize(cut)
    assert known == len(whole.events)


def test_a_cut_recording_is_shown_as_cut(bench: Bench, run: Run) -> None:
    data = run.recording_path.read_bytes()
    (bench.folder / "cut.vtpu").write_bytes(data[: len(data) // 2])
    report = bench.folder / "cut.json"

    shown = bench.vtpu("show", "cut.vtpu", "--json", str(report))

    shown.succeeded()
    summary = read_report(report)
    assert summary.run.was_cut
    (problem,) = summary.problems
    assert "the file is cut or damaged" in problem or "the file ends within a chunk" in problem
    assert problem in shown.report_text


def test_a_damaged_recording_loads_up_to_the_damage(run: Run) -> None:
    data = bytearray(run.recording_path.read_bytes())
    places = [
        *range(100),
        *range(100, len(data), len(data) // 50),
        *range(len(data) - 100, len(data)),
    ]
    for at in places:
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        try:
            recording = parse_recording(bytes(damaged))
        except NotARecording:
            continue
        assert len(recording.problems) == 1
        assert np.array_equal(recording.events, run.recording.events[: len(recording.events)])


def test_a_killed_program_leaves_a_recording_that_can_be_read(bench: Bench) -> None:
    killed = bench.run(SCRIPT + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert killed.exit_code == -9
    recording = load_recording(killed.recording_path)
    assert (recording.end, recording.exit_code) == (None, -9)
    assert [p.name for p in recording.programs].count("jit__lambda") == 1
    shown = bench.vtpu("show", "run.vtpu")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "it was killed, crashed or called os._exit" in shown.report_text
    assert "  covered         the first " in shown.report_text


def test_a_program_that_leaves_without_exit_functions_is_not_said_to_have_crashed(
    bench: Bench,
) -> None:
    left = bench.run(SCRIPT + "import os\nos._exit(9)\n")
    assert left.exit_code == 9
    assert left.summary.run.wall_s is None
    last = left.recording.events["time_ns"].max() / 1e9
    assert left.summary.run.covered_s == pytest.approx(last)
    (problem,) = left.summary.problems
    assert problem.endswith("it was killed, crashed or called os._exit")


def test_damage_is_not_taken_for_a_program_that_did_nothing(bench: Bench, run: Run) -> None:
    data = bytearray(run.recording_path.read_bytes())
    second_chunk = (
        len(MAGIC) + 16 + int.from_bytes(data[len(MAGIC) + 4 : len(MAGIC) + 12], "little")
    )
    data[second_chunk + 20] ^= 0xFF
    (bench.folder / "damaged.vtpu").write_bytes(data)

    shown = bench.vtpu("show", "damaged.vtpu")
    shown.succeeded()
    assert "compiled nothing" not in shown.report_text
    assert "in the part of the recording that can be read" in shown.report_text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("text.vtpu", b"hello\n", "text.vtpu is not a recording"),
        ("empty.vtpu", b"", "empty.vtpu is empty: nothing was recorded"),
        ("short.vtpu", b"vtpu rec", "short.vtpu was cut within its first line"),
        ("begun.vtpu", b"vtpu recording 1\n", "was cut or damaged before it said what ran"),
        ("later.vtpu", b"vtpu recording 9\n", "later.vtpu is not a recording of this version"),
        ("program.py", b"print('hello')\n", "program.py is not a recording"),
    ],
)
def test_what_is_no_recording_is_refused(
    bench: Bench, name: str, content: bytes, said: str
) -> None:
    (bench.folder / name).write_bytes(content)
    ended = bench.vtpu("show", name)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("vtpu: ")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_file_that_cannot_be_read_is_refused(bench: Bench) -> None:
    missing = bench.vtpu("show", "missing.vtpu")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr == "vtpu: missing.vtpu cannot be read: No such file or directory\n"
    folder = bench.vtpu("show", ".")
    assert (folder.exit_code, folder.stderr) == (2, "vtpu: . cannot be read: Is a directory\n")


def test_the_recording_of_another_machine_is_shown_without_its_sources(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = bench.run(SCRIPT)
    elsewhere: Path = tmp_path_factory.mktemp("elsewhere") / "copied.vtpu"
    elsewhere.write_bytes(run.recording_path.read_bytes())
    (bench.folder / "prog.py").unlink()

    shown = bench.vtpu("show", str(elsewhere))
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith(REPORT_HEADING)
    assert "prog.py:6" in shown.report_text
