"""Memory profiles of real processes, whole and damaged."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.reading import wire
from vtpu.reading.memory_profile import MemoryProfile, read_memory_profile
from vtpu.reading.recognize import Kind, recognize

PROGRAM = """\
import sys
import jax
import jax.numpy as jnp

def make(rows):
    return jnp.ones((rows, 256))

kept = [make(64) for _ in range(3)]
kept.append(make(512))
jax.block_until_ready(kept)
jax.profiler.save_device_memory_profile(sys.argv[1])
"""


def save_profile(folder: Path, environment: dict[str, str]) -> bytes:
    script, profile = folder / "arrays.py", folder / "memory.prof"
    script.write_text(PROGRAM)
    command = [sys.executable, str(script), str(profile)]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    return profile.read_bytes()


@pytest.fixture(scope="module", params=["cpu", "vtpu"])
def profile(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, str],
) -> bytes:
    ours = {"JAX_PLATFORMS": request.param, "VTPU_ON": "v5e-8"}
    return save_profile(tmp_path_factory.mktemp("profile"), {**environment, **ours})


def arrays(profile: MemoryProfile) -> tuple[int, int]:
    """Bytes and number of the arrays that `make` made; a first call has a stack of its own."""
    made = [
        s
        for s in profile.samples
        if s.kind == "buffer" and any(f.function == "make" and f.line == 6 for f in s.stack)
    ]
    return sum(s.bytes for s in made), sum(s.count for s in made)


def test_a_profile_tells_arrays_with_their_lines(profile: bytes) -> None:
    read = read_memory_profile(profile)

    assert read.problems == ()
    assert arrays(read) == ((3 * 64 + 512) * 256 * 4, 4)
    outermost = {s.stack[-1].file.rpartition("/")[2] for s in read.samples}
    assert outermost == {"arrays.py"}
    assert len(read.devices) == 1
    assert {s.kind for s in read.samples} == {"buffer", "executable"}
    parts = sum(read.total_bytes(kind) for kind in ("buffer", "executable"))
    assert read.total_bytes() == parts
    assert read.total_bytes("buffer", read.devices[0]) == read.total_bytes("buffer")
    assert recognize(profile) is Kind.MEMORY_PROFILE


def test_a_profile_that_is_not_packed_is_the_same(profile: bytes) -> None:
    unpacked = gzip.decompress(profile)
    assert read_memory_profile(unpacked) == read_memory_profile(profile)
    assert recognize(unpacked) is Kind.MEMORY_PROFILE


def test_a_profile_cut_anywhere_gives_what_is_left(profile: bytes) -> None:
    unpacked = gzip.decompress(profile)
    whole = read_memory_profile(profile)
    for data in (profile, unpacked):
        for end in range(0, len(data), 7):
            cut = read_memory_profile(data[:end])
            assert len(cut.samples) <= len(whole.samples)
            assert cut.problems or len(cut.samples) <= len(whole.samples)
    assert "cut" in " ".join(read_memory_profile(profile[:-20]).problems)


def test_a_profile_without_samples_says_so() -> None:
    unit = wire.write_field(1, wire.write_field(1, 1) + wire.write_field(2, 2))
    assert "nothing was allocated" in read_memory_profile(unit).problems[0]


@given(st.binary(max_size=400))
def test_foreign_bytes_are_a_problem_not_an_error(data: bytes) -> None:
    for each in (data, gzip.compress(data), gzip.compress(data)[:-4], b"\x1f\x8b" + data):
        profile = read_memory_profile(each)
        assert profile.samples or profile.problems
