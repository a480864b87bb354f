"""The result cache: what goes in comes out, within its limit, and it never stops a run."""

import os
import time

import pytest

from vtpu.compiler.cache import ResultCache


def test_what_is_written_is_read_back(tmp_path):
    cache = ResultCache(tmp_path)
    cache.write("programs", "ab12", b"data")
    assert cache.read("programs", "ab12") == b"data"
    assert cache.read("programs", "ab13") is None
    assert cache.problem is None


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:2], lambda d: d[:-1] + b"?"])
def test_a_damaged_result_is_as_if_it_were_not_there(tmp_path, damage):
    cache = ResultCache(tmp_path)
    cache.write("programs", "ab12", b"data")
    (path,) = (p for p in tmp_path.rglob("*") if p.is_file())
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read("programs", "ab12") is None
    cache.write("programs", "ab12", b"data")
    assert cache.read("programs", "ab12") == b"data"


def test_nothing_but_whole_results_lies_in_the_folder(tmp_path):
    ResultCache(tmp_path).write("programs", "ab12", b"data")
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["ab12"]


def test_the_least_recently_used_results_go_first(tmp_path):
    cache = ResultCache(tmp_path, limit_bytes=1000)
    for i in range(10):
        cache.write("programs", f"{i:04d}", bytes(95))  # and its checksum
        os.utime(tmp_path / "programs" / "00" / f"{i:04d}", (i, i))
    cache.read("programs", "0000")
    cache.write("programs", "9999", bytes(200))
    kept = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert "0000" in kept
    assert "9999" in kept
    assert "0001" not in kept
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) <= 900


def test_a_file_that_a_killed_run_left_half_written_goes_in_time(tmp_path):
    cache = ResultCache(tmp_path, limit_bytes=1000)
    cache.write("programs", "ab12", bytes(99))
    left = tmp_path / "programs" / "ab" / ".new-x"
    left.write_bytes(b"half")
    long_ago = time.time() - 7200
    os.utime(left, (long_ago, long_ago))
    cache.write("programs", "ab13", bytes(99))
    assert not left.exists()


def test_a_folder_that_cannot_be_made_is_a_problem_and_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    cache = ResultCache(tmp_path / "file")
    cache.write("programs", "ab12", b"data")
    cache.append_line("layouts", "line")
    assert cache.read("programs", "ab12") is None
    assert cache.read_lines("layouts") == []
    assert cache.problem is not None
    assert "cannot be written" in cache.problem


def test_lines_of_facts_are_appended_and_a_cut_line_is_left_out(tmp_path):
    cache = ResultCache(tmp_path)
    cache.append_line("layouts", "11 8,128 {1,0}")
    cache.append_line("layouts", "11 4 {0}")
    with (tmp_path / "layouts").open("a") as file:
        file.write("11 5 {")
    assert cache.read_lines("layouts") == ["11 8,128 {1,0}", "11 4 {0}"]


@pytest.mark.parametrize("key", ["00", "ff" * 32])
def test_keys_of_any_length_have_their_place(tmp_path, key):
    cache = ResultCache(tmp_path)
    cache.write("texts", key, b"x")
    assert cache.read("texts", key) == b"x"
