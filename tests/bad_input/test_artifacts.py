"""`vtpu explain` of what is empty, cut, foreign, enormous, unreadable or missing."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules import hlo_proto
from running import VTPU, Bench
from vtpu.cli.artifacts import open_artifacts
from vtpu.cli.explain import explain_all
from vtpu.errors import UsageError

EXPECTED = "vtpu explain reads a text with out-of-memory messages"
PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4s", 13, b"IHDR") + bytes(17)


def refused(bench: Bench, *names: str) -> str:
    """What `vtpu explain` says of something that it cannot explain: one message, exit code 2."""
    ended = bench.vtpu("explain", *names)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("vtpu: ")
    assert "Traceback" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "thing is empty"),
        (b" \n\n", "thing is empty"),
        (b"\x7fELF\x02\x01\x01" + bytes(200), "thing is a program or library (ELF)"),
        (PNG, "thing is an image"),
        (b"PK\x03\x04" + bytes(100), "thing is an archive: unpack it first"),
        (zlib.compress(b"x" * 1000, wbits=31), "a packed file of another kind: unpack it first"),
        (b'{"loss": 2.5}\n', "thing is JSON: no message about memory is in it"),
        (b"step 1 loss 2.5\nstep 2 loss 2.4\n", "look for RESOURCE_EXHAUSTED"),
        (random.Random(1).randbytes(4096) + bytes(100), "thing is bytes that no reader knows"),
        (b"module @jit_f {\n  func.func public @main() {\n", "`vtpu check thing --on SLICE`"),
        (b"HloModule jit_f\n\nENTRY main { ROOT x = f32[2] add(y, z) }\n", "cannot be read"),
        (b"vtpu recording 1\n", "was cut or damaged before it said what ran"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_what_was_expected(
    bench: Bench, content: bytes, said: str
) -> None:
    (bench.folder / "thing").write_bytes(content)
    assert said in refused(bench, "thing")


def test_a_missing_file_is_named(bench: Bench) -> None:
    said = refused(bench, "nothing.txt")
    assert "nothing.txt does not exist" in said
    assert EXPECTED in said


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="no name of a file"):
        open_artifacts("a\0b")


def test_an_unreadable_file_is_named() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "secret.txt")
        path.write_text("RESOURCE_EXHAUSTED")
        open_artifacts(str(path))  # all modules are loaded before others may not read them
        path.chmod(0)
        with (
            nobody(),
            pytest.raises(UsageError, match=r"secret\.txt cannot be read: Permission denied"),
        ):
            open_artifacts(str(path))


@contextmanager
def nobody() -> Generator[None]:
    """Without the rights of root, who may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_device_is_no_file(bench: Bench) -> None:
    assert "/dev/zero is a device or socket" in refused(bench, "/dev/zero")


def test_an_empty_folder_says_how_dumps_are_made(bench: Bench) -> None:
    (bench.folder / "dumps").mkdir()
    said = refused(bench, "dumps")
    assert "dumps is empty" in said
    assert "--xla_dump_to=FOLDER" in said


def test_a_folder_of_other_files_says_how_dumps_are_made(bench: Bench) -> None:
    (bench.folder / "photos").mkdir()
    (bench.folder / "photos" / "cat.png").write_bytes(PNG)
    assert "photos has no file that vtpu explain knows (1 files)" in refused(bench, "photos")


def test_an_enormous_file_is_not_read_whole(bench: Bench) -> None:
    path = bench.folder / "huge.bin"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    assert "huge.bin is bytes that no reader knows" in refused(bench, "huge.bin")


def test_of_an_enormous_log_the_begin_and_the_end_are_read(bench: Bench) -> None:
    path = bench.folder / "huge.log"
    with path.open("wb") as file:
        file.write(b"step 1\n" * 100_000)
        file.truncate(3 << 30)
        file.seek(0, os.SEEK_END)
        file.write(
            b"\nRESOURCE_EXHAUSTED: Attempting to reserve 6.48G at the bottom of memory. That was not "
            b"possible. There are 6.78G free, 0B reserved, and 3.33G reservable.\n"
        )
    ended = bench.vtpu("explain", "huge.log", "--json", "-")
    assert ended.exit_code == 0, ended.stderr
    (explained,) = json.loads(ended.stdout)["explained"]
    assert [f["template"] for f in explained["findings"]] == ["T10"]
    assert "only its first and last 32 MiB were read" in explained["problems"][0]


def test_a_cut_module_is_cut(bench: Bench) -> None:
    whole = hlo_proto(50)
    (bench.folder / "cut.pb").write_bytes(whole[: len(whole) // 2])
    said = refused(bench, "cut.pb")
    assert "cut.pb looks like an HloProto" in said
    assert "copy or dump it again" in said


@given(st.binary(max_size=2000))
def test_nothing_is_raised_but_a_refusal(tmp_path_factory: pytest.TempPathFactory, data: bytes):
    path = tmp_path_factory.mktemp("any") / "thing"
    path.write_bytes(data)
    with suppress(UsageError):
        open_artifacts(str(path))


@pytest.mark.parametrize("length", range(0, 4000, 160))
def test_a_module_cut_anywhere_is_read_or_refused(bench: Bench, length: int) -> None:
    path = bench.folder / "cut.pb"
    path.write_bytes(hlo_proto(20)[:length])
    with suppress(UsageError):
        explain_all([str(path)])


def test_standard_input_that_is_empty_is_refused(bench: Bench) -> None:
    assert "standard input is empty" in refused(bench, "-")


def test_a_log_in_a_pipe_is_explained(bench: Bench) -> None:
    text = "Failed to allocate request for 32.00MiB (33554432B) on device ordinal 0\n"
    done = subprocess.run(
        [VTPU, "explain", "-"], input=text, capture_output=True, text=True,
        env=dict(bench.environment), cwd=bench.folder, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "32.00 MiB" in done.stdout


def test_a_dump_with_a_cut_module_shows_the_others(bench: Bench) -> None:
    folder = Path(bench.folder, "dump")
    folder.mkdir()
    whole = hlo_proto(30)
    names = [f"module_{n:04}.jit_step.cl_1.after_optimizations.hlo.pb" for n in range(2)]
    (folder / names[0]).write_bytes(whole)
    (folder / names[1]).write_bytes(whole[: len(whole) // 3])
    ended = bench.vtpu("explain", "dump")
    assert ended.exit_code == 0, ended.stderr
    assert f"{names[1]} is cut or damaged" in ended.stdout
    assert "At the peak" in ended.stdout
