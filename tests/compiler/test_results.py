"""Compiled programs and messages as bytes."""

import io
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.compiler.frames import encode_frame, read_frame
from vtpu.compiler.results import Compiled, OutputFacts, Refusal, pack, pack_refusal, unpack

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
outputs = st.builds(
    OutputFacts,
    element_type=st.integers(1, 29),
    dims=st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
    layout=text,
    memory_kind=text,
)
programs = st.builds(
    Compiled,
    name=text,
    outputs=st.lists(outputs, max_size=3).map(tuple),
    hbm_temp_bytes=st.integers(0, 2**62),
    memory_stats=st.lists(st.integers(-(2**62), 2**62), min_size=12, max_size=12).map(tuple),
    costs=st.dictionaries(text, st.floats(allow_nan=False), max_size=3),
    fingerprint=st.binary(max_size=40),
    packed_hlo=st.binary(max_size=60),
    compile_s=st.floats(0, 1e5),
)


@given(programs)
def test_a_program_is_read_back_from_its_bytes(program):
    assert unpack(pack(program)) == program


@given(programs, st.data())
def test_a_cut_program_is_refused(program, data):
    packed = pack(program)
    with pytest.raises(ValueError, match=r"cut|not a result|JSON|Expecting|Unterminated|Invalid"):
        unpack(packed[: data.draw(st.integers(0, len(packed) - 1))])


def test_the_module_is_kept_compressed():
    module = b"hlo " * 1000
    program = Compiled(
        name="jit_f", outputs=(), memory_stats=(0,) * 12, hbm_temp_bytes=0, costs={}, fingerprint=b"",
        packed_hlo=zlib.compress(module), compile_s=0.0,
    )  # fmt: skip
    assert program.hlo == module
    assert len(pack(program)) < len(module)


@given(st.dictionaries(text, text, max_size=3), st.lists(st.binary(max_size=30), max_size=3))
def test_messages_follow_each_other_in_a_stream(header, blobs):
    stream = io.BytesIO(encode_frame(header, blobs) + encode_frame({}, []))
    assert read_frame(stream.read) == (header, blobs)
    assert read_frame(stream.read) == ({}, [])
    assert read_frame(stream.read) is None


@given(st.lists(st.binary(max_size=30), max_size=3), st.data())
def test_a_stream_that_ends_within_a_message_says_so(blobs, data):
    whole = encode_frame({"ask": "x"}, blobs)
    stream = io.BytesIO(whole[: data.draw(st.integers(1, len(whole) - 1))])
    with pytest.raises(EOFError):
        read_frame(stream.read)


refusals = st.builds(
    Refusal,
    code=st.integers(1, 16),
    message=text,
    packed_hlo=st.binary(max_size=60),
    packed_log=st.binary(max_size=60),
)


@given(refusals)
def test_a_refusal_is_read_back_from_its_bytes(refusal):
    assert unpack(pack_refusal(refusal)) == refusal
