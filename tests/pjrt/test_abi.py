"""The ABI's data and the two views of it."""

import ctypes
import shutil
import subprocess

import pytest

from vtpu.pjrt.abi import load_abi
from vtpu.pjrt.declarations import render_header
from vtpu.pjrt.structs import struct


@pytest.mark.parametrize("name", sorted(load_abi().structs))
def test_every_struct_has_the_recorded_size_and_offsets(name):
    described = load_abi().structs[name]
    built = struct(name)
    assert ctypes.sizeof(built) == described.size
    for field in described.fields:
        if field.name in {f[0] for f in built._fields_}:
            assert getattr(built, field.name).offset == field.offset


def test_members_of_a_union_share_their_bytes():
    value = struct("PJRT_NamedValue")()
    value.int64_value = 7
    assert value.string_value == 7


def test_the_function_table_ends_where_the_version_says():
    abi = load_abi()
    assert max(f.offset for f in abi.functions) + 8 == abi.table_size


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_compiler_agrees_with_every_offset(tmp_path):
    (tmp_path / "pjrt.h").write_text(render_header())
    source = tmp_path / "check.c"
    source.write_text('#include "pjrt.h"\n')
    command = ["cc", "-std=gnu11", "-Wall", "-Werror", "-c", str(source), "-o", "/dev/null"]
    subprocess.run(command, check=True, cwd=tmp_path)
