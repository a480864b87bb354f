"""Programs that ran out of memory at compile time: their run says by how much and of what."""

import io

import pytest

from recordings import program, recording
from running import Bench
from vtpu.analysis.run.refused import find_refused
from vtpu.analysis.run.summary import summarize
from vtpu.report.json_output import run_as_json
from vtpu.report.run_report import run_document
from vtpu.report.text import print_document

GIB = 1 << 30

ATTENTION = """
import jax, jax.numpy as jnp

@jax.jit
def attention(q, k):
    scores = jnp.einsum("qd,kd->qk", q, k)
    return jax.nn.softmax(scores, -1) @ k

q = jnp.ones((65536, 128))
for _ in range(2):
    try:
        attention(q, q)
    except jax.errors.JaxRuntimeError:
        print("refused")
"""

KERNEL = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl

def body(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2

@jax.jit
def double(x):
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), name="twice")(x)

try:
    double(jnp.ones((4096, 4096)))
except jax.errors.JaxRuntimeError:
    print("refused")
"""


def section(text: str) -> str:
    """What the report says of programs that did not compile."""
    return text.partition("\nPrograms that did not compile\n")[2].partition("\n\n")[0]


def test_a_program_that_lacks_hbm_is_shown_with_its_largest_buffers(bench: Bench) -> None:
    run = bench.run(ATTENTION)

    run.succeeded("refused\n" * 2)
    first, again = run.program("jit_attention").compilations
    cause = first.out_of_memory
    assert again.out_of_memory == cause
    assert (cause.space, cause.code, cause.kernel) == ("hbm", "E1000", None)
    assert cause.over_bytes == cause.need_bytes - cause.limit_bytes > 0
    scores = cause.largest[0]
    assert (scores.bytes, scores.padding_bytes, scores.line.line) == (16 * GIB, 0, 6)
    assert 0 <= cause.need_bytes - sum(b.bytes for b in cause.largest) < GIB
    said = section(run.report_text)
    assert said.count("exceeds available HBM") == 1  # both refusals are one row
    assert 'scores = jnp.einsum("qd,kd->qk", q, k)' in said
    assert "16.00 GiB" in said
    assert "`vtpu explain " in said
    assert run.report_text.index("did not compile\n") < run.report_text.index("\nPrograms\n")


def test_a_kernel_that_lacks_vmem_is_shown_with_its_line(bench: Bench) -> None:
    run = bench.run(KERNEL)

    run.succeeded("refused\n")
    (compilation,) = run.program("jit_double").compilations
    cause = compilation.out_of_memory
    assert cause.space == "vmem"
    assert cause.kernel.startswith("twice")
    assert cause.need_bytes == cause.limit_bytes + cause.over_bytes == 128 << 20
    assert cause.largest == ()
    assert "pl.pallas_call(body" in section(run.report_text)


def report_of(found) -> str:
    out = io.StringIO()
    print_document(run_document(summarize(found), "run.vtpu"), out)
    return section(out.getvalue())


@pytest.mark.parametrize(
    "error", ["INVALID_ARGUMENT: no such thing", "RESOURCE_EXHAUSTED: no room"]
)
def test_other_refusals_have_no_sizes(error: str) -> None:
    found = recording(programs=(program(1, error=error, key=""),))
    assert find_refused(found) == {}
    said = report_of(found)
    assert said.split()[:4] == ["program", "times", "line", "error"]
    assert error in said
    assert "vtpu explain" not in said
    value = run_as_json(summarize(found))
    assert value["programs"][0]["compilations"][0]["out_of_memory"] is None


def test_a_program_that_is_refused_again_and_again_is_one_row() -> None:
    refused = tuple(program(n, error="INVALID_ARGUMENT: no", key="k") for n in range(1, 501))
    said = report_of(recording(programs=refused))
    assert said.count("INVALID_ARGUMENT") == 1
    assert " 500 " in said
