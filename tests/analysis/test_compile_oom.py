"""Out of memory at compile time: real programs that do not fit, and what the estimates rest on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answers import load_case
from running import Bench, source_of
from vtpu.analysis.program.argument_roles import Role
from vtpu.analysis.program.estimates import Estimate, estimate_changes
from vtpu.analysis.program.kernel_out_of_memory import KernelFailure
from vtpu.analysis.program.memory import analyse_memory
from vtpu.analysis.program.out_of_memory import Failure, HbmFailure, explain_failure, with_log
from vtpu.analysis.program.recorded import memory_of
from vtpu.analysis.source_lines import UserLines
from vtpu.program.element_types import ElementType
from vtpu.program.layouts import Layout
from vtpu.program.memory import (
    Allocation,
    AllocationKind,
    BufferAssignment,
    LogicalBuffer,
    Placed,
    ProgramMemory,
)
from vtpu.program.modules import Alias, Computation, Instruction, Module
from vtpu.program.shapes import ArrayShape
from vtpu.units import MIB

TILED = Layout((1, 0), ((8, 128),))


def failure_of(bench: Bench, name: str) -> Failure:
    """Why a case's program did not compile."""
    case = load_case(name)
    recording = bench.run(case.program, on=case.topology).recording
    (failed,) = [p for p in recording.programs if p.error]
    memory = memory_of(failed, recording.run)
    found = explain_failure(memory, UserLines(recording.run.library_folders))
    assert found is not None
    return found


def estimate(failure: HbmFailure, change: str) -> Estimate:
    (found,) = [e for e in failure.estimates.found if e.change == change]
    return found


# ---- real programs -----------------------------------------------------------------------------


def test_adam_without_donation_needs_its_state_twice(bench: Bench) -> None:
    case = load_case("hbm-adam-replicated")
    failure = failure_of(bench, "hbm-adam-replicated")
    assert isinstance(failure, HbmFailure)
    assert failure.refusal.code == "E1000"
    assert failure.refusal.page == "https://openxla.org/xla/errors/error_1000"
    assert failure.agrees
    assert failure.need_bytes == pytest.approx(case.breakdown["total_bytes"], rel=0.1)
    assert failure.limit_bytes
    assert failure.over_bytes == failure.need_bytes - failure.limit_bytes > 0
    assert {str(item.shape).partition("{")[0] for item in failure.largest[:6]} == {
        "f32[24,4096,8192]"
    }
    donated = estimate(failure, "donate arguments")
    assert donated.saved_bytes == case.expected["state_bytes"]
    assert donated.fits
    assert "`params`, `m`, `v`" in donated.assumes


def test_attention_scores_shrink_with_what_is_attended(bench: Bench) -> None:
    case = load_case("hbm-attention-scores")
    failure = failure_of(bench, "hbm-attention-scores")
    assert isinstance(failure, HbmFailure)
    largest = failure.largest[0]
    assert largest.bytes == case.expected["buffer_bytes"]
    assert str(largest.shape).startswith(case.expected["buffer_shape"])
    assert "q" in source_of(largest.line)
    assert estimate(failure, "half the batch").need_bytes < 0.6 * failure.need_bytes
    tried = failure.rematerialization
    assert tried
    assert tried.target_bytes
    assert tried.reached_bytes
    assert tried.target_bytes < tried.reached_bytes


@pytest.mark.parametrize(
    ("name", "kernel"), [("vmem-no-grid", "double"), ("vmem-kernel-for-newer-chip", "scale")]
)
def test_a_kernel_that_exceeds_the_scoped_limit_is_named_with_its_line(
    bench: Bench, name: str, kernel: str
) -> None:
    expected = load_case(name).expected
    failure = failure_of(bench, name)
    assert isinstance(failure, KernelFailure)
    assert failure.refusal.code == "E1001"
    assert failure.kernel.startswith(kernel)
    assert failure.is_users_kernel
    assert failure.takes_whole_operands
    assert "pallas_call" in source_of(failure.line)
    sizes = [s.bytes for s in (failure.need, failure.limit, failure.over) if s]
    assert sizes == [expected[f"{k}_mib"] * MIB for k in ("size", "limit", "over")]


def test_a_buffer_larger_than_the_chip_is_no_matter_of_limits(bench: Bench) -> None:
    case = load_case("vmem-scratch-beyond-chip")
    failure = failure_of(bench, case.id)
    assert isinstance(failure, KernelFailure)
    assert failure.is_over_the_chip
    assert (failure.need.bytes, failure.limit.bytes) == (
        case.expected["size_bytes"],
        case.expected["memory_bytes"],
    )
    assert failure.buffer
    assert "scratch operand" in failure.buffer
    assert "pallas_call" in source_of(failure.line)


# ---- estimates ---------------------------------------------------------------------------------


def argument(number: int, name: str, shape: ArrayShape) -> Instruction:
    return Instruction(
        id=number,
        name=f"p.{number}",
        opcode="parameter",
        shape=shape,
        op_name=name,
        parameter_number=number,
    )


def array(*dims: int, of: ElementType = ElementType.F32) -> ArrayShape:
    return ArrayShape(of, dims, TILED)


def program(
    arguments: dict[str, ArrayShape],
    inner: dict[str, ArrayShape],
    results: list[ArrayShape],
    aliases: tuple[Alias, ...] = (),
) -> ProgramMemory:
    """A program in which everything is alive all the time."""
    count = len(arguments)
    made = [argument(n, name, shape) for n, (name, shape) in enumerate(arguments.items())]
    made += [
        Instruction(id=count + n, name=f"op.{n}", opcode="add", shape=shape, op_name=path)
        for n, (path, shape) in enumerate(inner.items())
    ]
    made += [
        Instruction(id=100 + n, name=f"out.{n}", opcode="add", shape=shape)
        for n, shape in enumerate(results)
    ]
    buffers = [
        LogicalBuffer(id=i.id, size=i.shape.padded_bytes, color=0, instruction=i.id)
        for i in made
        if isinstance(i.shape, ArrayShape)
    ]
    kinds = [AllocationKind.ARGUMENT] * count
    kinds += [AllocationKind.CONSTANT] * len(inner) + [AllocationKind.OUTPUT] * len(results)
    heap = [b for b, kind in zip(buffers, kinds, strict=True) if kind is AllocationKind.CONSTANT]
    allocations = [
        Allocation(
            index=n,
            size=b.size,
            color=0,
            kind=kind,
            parameter=b.id if kind is AllocationKind.ARGUMENT else None,
            is_live_out=any(a.parameter == b.id for a in aliases),
            placed=(Placed(b.id, 0, b.size),),
        )
        for n, (b, kind) in enumerate(zip(buffers, kinds, strict=True))
        if kind is not AllocationKind.CONSTANT
    ]
    offsets = [sum(b.size for b in heap[:n]) for n in range(len(heap))]
    placed = tuple(Placed(b.id, at, b.size) for b, at in zip(heap, offsets, strict=True))
    size = sum(b.size for b in heap)
    temp = Allocation(index=99, size=size, color=0, kind=AllocationKind.TEMP, placed=placed)
    order = Computation(id=1, name="main", instructions=tuple(made), root=made[-1].id)
    return ProgramMemory(
        module=Module(name="m", entry=1, computations={1: order}, aliases=aliases),
        assignment=BufferAssignment(
            buffers={b.id: b for b in buffers}, allocations=(*allocations, temp)
        ),
        limit_bytes=1 << 30,
    )


def estimates(memory: ProgramMemory) -> dict[str, Estimate]:
    return {e.change: e for e in estimate_changes(memory, analyse_memory(memory)).found}


def test_half_the_batch_pays_for_padding_again() -> None:
    batch, scores = array(8, 128), array(8, 128)
    memory = program({"x": batch}, {"jit(f)/jvp(a)/add": scores}, [array(1000, 1000)])
    assert "half the batch" not in estimates(memory)  # four rows take a whole tile too
    memory = program({"x": array(64, 128)}, {"jit(f)/jvp(a)/add": array(64, 128)}, [])
    assert estimates(memory)["half the batch"].saved_bytes == array(64, 128).padded_bytes


def test_the_shape_of_a_parameter_does_not_shrink_with_the_batch() -> None:
    weights = array(64, 512)
    memory = program(
        {"params['w']": weights, "x": array(64, 128)}, {"jit(f)/transpose(jvp(a))/dot": weights}, []
    )
    assert estimates(memory)["half the batch"].saved_bytes == array(32, 128).padded_bytes


def test_merged_dimensions_scale_with_the_batch() -> None:
    batch = ArrayShape(ElementType.S32, (16, 128), TILED)
    memory = program({"tokens": batch}, {"jit(f)/jvp(a)/dot": array(16 * 128, 512)}, [])
    half = array(16 * 64, 512).padded_bytes
    assert estimates(memory)["half the batch"].saved_bytes >= half


def test_only_what_is_not_donated_can_be() -> None:
    state = {"params['a']": array(64, 128), "params['b']": array(64, 128)}
    alias = Alias(output=(0,), parameter=0)
    memory = program(state, {}, [array(64, 128), array(64, 128)], (alias,))
    found = estimates(memory)["donate arguments"]
    assert (found.count, found.saved_bytes) == (1, array(64, 128).padded_bytes)
    assert found.assumes.startswith("`params['b']` has the shape")


def test_bfloat16_halves_float32_alone() -> None:
    inner = {
        "jit(f)/jvp(a)/exp": array(256, 128),
        "jit(f)/jvp(b)/exp": array(256, 128, of=ElementType.BF16),
    }
    memory = program({"opt_state.mu": array(64, 128)}, inner, [array(64, 128)])
    found = estimates(memory)
    assert found["activations in bfloat16"].saved_bytes == array(256, 128).padded_bytes // 2
    assert found["optimizer state in bfloat16"].saved_bytes == array(64, 128).padded_bytes


def test_what_saves_next_to_nothing_is_a_sentence_and_no_help() -> None:
    state = {"params['w']": array(4096, 4096), "tok": array(8, 128)}
    memory = program(state, {}, [array(8, 128)])
    found = estimate_changes(memory, analyse_memory(memory))
    assert "donate arguments" not in [e.change for e in found.found]
    assert "donate arguments: would save no more than 4.00 KiB" in found.others


shapes = st.builds(array, st.integers(1, 40).map(lambda n: n * 8), st.sampled_from([128, 256]))


@given(
    st.lists(shapes, max_size=4),
    st.lists(shapes, max_size=4),
    st.lists(shapes, max_size=4),
    st.integers(0, 1 << 24),
)
def test_an_estimate_is_the_total_less_what_it_saves(states, inner, results, limit):
    arguments = {f"params['{n}']": shape for n, shape in enumerate(states)}
    arguments["x"] = array(64, 128)
    paths = {f"jit(f)/jvp(layer_{n})/add": shape for n, shape in enumerate(inner)}
    memory = replace(program(arguments, paths, results), limit_bytes=limit)
    usage = analyse_memory(memory)
    total = usage.hbm.total_bytes
    for found in estimate_changes(memory, usage).found:
        assert found.need_bytes + found.saved_bytes == total
        assert 0 < found.saved_bytes <= total
        assert found.fits == (found.need_bytes <= limit)
    donated = estimates(memory).get("donate arguments")
    outputs = sum(i.bytes for i in usage.hbm.items if i.role is Role.OUTPUT)
    assert (donated.saved_bytes if donated else 0) <= outputs


def test_a_limit_is_taken_from_a_message_about_this_module_only() -> None:
    memory = program({"x": array(64, 128)}, {}, [])
    message = (
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
        "required for HLO temporaries (18.12G) exceeds available HBM (15.75G). HLO module: {}.\n"
    )
    bare = replace(memory, limit_bytes=None)
    assert with_log(bare, message.format("other")).limit_bytes is None
    own = with_log(bare, message.format("m"))
    assert own.limit_bytes == round(15.75 * (1 << 30))
    assert own.problems
    assert with_log(bare, "nothing").limit_bytes is None


def test_a_program_that_compiled_has_no_failure() -> None:
    assert explain_failure(program({"x": array(64, 128)}, {}, [])) is None
