"""Claiming a recording's file."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from vtpu.recording.claim import backup_of, claim_file, release_unused


def test_a_free_name_is_taken(tmp_path):
    path, file = claim_file(tmp_path / "run.vtpu")
    with file:
        assert path == tmp_path / "run.vtpu"
        assert list(tmp_path.iterdir()) == [path]


def test_an_older_file_is_kept_beside_it(tmp_path):
    (tmp_path / "run.vtpu").write_text("older")
    path, file = claim_file(tmp_path / "run.vtpu")
    with file:
        assert backup_of(path).read_text() == "older"
        assert path.read_bytes() == b""


def test_two_runs_at_once_get_files_of_their_own(tmp_path):
    first, file1 = claim_file(tmp_path / "run.vtpu")
    second, file2 = claim_file(tmp_path / "run.vtpu")
    third, file3 = claim_file(tmp_path / "run.vtpu")
    with file1, file2, file3:
        assert [first.name, second.name, third.name] == ["run.vtpu", "run-2.vtpu", "run-3.vtpu"]


def test_many_runs_that_start_together_get_files_of_their_own(tmp_path):
    (tmp_path / "run.vtpu").write_text("older")
    together = threading.Barrier(20)

    def claim(_):
        together.wait()
        return claim_file(tmp_path / "run.vtpu")

    with ThreadPoolExecutor(20) as threads:
        claims = list(threads.map(claim, range(20)))
    assert len({path for path, _ in claims}) == 20
    assert (tmp_path / "run.vtpu~").read_text() == "older"
    assert len(list(tmp_path.iterdir())) == 21
    for _, file in claims:
        file.close()


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no file"):
        claim_file(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_a_claim_ends_with_its_file(tmp_path):
    _, file = claim_file(tmp_path / "run.vtpu")
    file.write(b"data")
    file.close()
    path, again = claim_file(tmp_path / "run.vtpu")
    with again:
        assert path.name == "run.vtpu"
        assert backup_of(path).read_bytes() == b"data"


def test_a_claim_that_was_not_used_leaves_everything_as_it_was(tmp_path):
    (tmp_path / "run.vtpu").write_text("older")
    path, file = claim_file(tmp_path / "run.vtpu")
    file.close()
    release_unused(path)
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def test_what_the_same_run_wrote_before_stays_where_it_is(tmp_path):
    first, file = claim_file(tmp_path / "run.vtpu")
    with file:
        began = first.stat().st_mtime
        second, file2 = claim_file(tmp_path / "run.vtpu")
        file2.close()
        third, file3 = claim_file(
            tmp_path / "run.vtpu"
        )  # the run that writes at `run.vtpu` wrote it
        file3.close()
    fourth, file4 = claim_file(tmp_path / "run.vtpu", run_began=began)
    file4.close()
    names = [path.name for path in (first, second, third, fourth)]
    assert names == ["run.vtpu", "run-2.vtpu", "run-3.vtpu", "run-4.vtpu"]


def test_what_an_earlier_run_wrote_beside_is_replaced(tmp_path):
    (tmp_path / "run-2.vtpu").write_text("older")
    os.utime(tmp_path / "run-2.vtpu", (1, 1))
    _, file = claim_file(tmp_path / "run.vtpu")
    path, file2 = claim_file(tmp_path / "run.vtpu")
    with file, file2:
        assert path.name == "run-2.vtpu"
        assert backup_of(path).read_text() == "older"
