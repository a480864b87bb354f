"""Each template of a message, composed with names and sizes of our own, whole and in its variants."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from message_texts import FITS, LONG
from vtpu.reading.messages import Messages, read_messages
from vtpu.reading.messages.gpu import GpuOutOfMemory
from vtpu.reading.messages.others import CapturedConstants
from vtpu.reading.messages.runtime import Lack
from vtpu.reading.messages.tables import MemoryReport
from vtpu.reading.messages.verdicts import Cause, verdict
from vtpu.reading.printed.sizes import PrintedSize, parse_size
from vtpu.units import GIB, KIB, MIB


def one(text: str) -> Any:
    (message,) = read_messages(text).found
    return message


def only(text: str) -> tuple[Messages, Any]:
    """What a text with one message says, and the message."""
    messages = read_messages(text)
    return messages, messages.found[0] if len(messages.found) == 1 else None


def size(text: str) -> PrintedSize:
    return parse_size(text)


# ---- compile time -------------------------------------------------------------------------------


def test_the_long_form_gives_every_field() -> None:
    messages, report = only(LONG)
    assert isinstance(report, MemoryReport)

    assert (report.template, report.code, report.space) == ("T1", None, "hbm")
    assert (report.used, report.capacity, report.over) == (
        size("17.52G"),
        size("15.75G"),
        size("1.77G"),
    )
    total = report.total()
    assert [(p.name, p.size) for p in total.parts] == [
        ("reserved", size("258.00M")),
        ("program", size("13.52G")),
        ("arguments", size("4.00G")),
    ]
    assert total.part("arguments").utilization_percent == 98.4
    assert (total.output.size, total.output.shares) == (size("4.00G"), size("2.00G"))
    temp = report.temp
    assert (temp.utilization_percent, temp.unpadded, temp.padded) == (
        50.0,
        size("6.50G"),
        size("13.00G"),
    )
    assert (temp.fragmentation_percent, temp.fragmentation) == (3.8, size("532.48M"))
    assert report.requirement().size_of("scoped") == PrintedSize(64 * KIB, 52)
    assert messages.problems == ()
    assert messages.unknown == ()
    assert verdict(report).cause is Cause.PADDING


def test_an_entry_of_the_table_gives_every_field() -> None:
    first, second = one(LONG).entries

    assert (first.number, first.size, first.padding) == (1, size("8.00G"), PrintedSize(0))
    assert first.operator.op_type == "dot_general"
    assert first.operator.source == "/home/me/decoder.py:41"
    assert first.shape.padded_bytes == first.shape.logical_bytes == 8 * GIB
    assert [str(s) for s in first.operands] == ["bf16[8,8192,512]{2,1,0:T(8,128)(2,1)}"]
    assert (first.instruction, first.allocation_type) == ("fusion.7", "HLO temp")
    assert (second.operator.stack_frame_id, second.operator.source_line) == (12, None)
    assert (second.shape.layout.element_bits, second.shape.layout.memory_space) == (32, 1)
    assert (second.unpadded, second.padding, second.expansion) == (
        size("96.00M"),
        size("3.91G"),
        42.7,
    )
    assert second.lines == (25, 32)
    assert one(LONG).largest == first


def test_the_form_of_2019_prints_no_padded_sizes() -> None:
    text = (
        "Compilation failure: Ran out of memory in memory space hbm. Used 9.00G of 8.00G hbm. "
        "Exceeded hbm capacity by 1.00G.\n\nTotal hbm usage >= 9.00G:\n    reserved 528.00M\n"
        "    program unknown size\n    arguments unknown size (77.0% utilization)\n\n"
        "Output size unknown.\n\nProgram hbm requirement 8.40G:\n    reserved 4.0K\n"
        "    HLO temp 8.40G (96.0% utilization, 2.5% fragmentation (215.04M))\n"
    )
    report = one(text)

    assert report.total().part("program").size is None
    assert report.total().part("arguments").utilization_percent == 77.0
    assert report.total().output.size is None
    assert (report.temp.padded, report.temp.fragmentation) == (None, size("215.04M"))
    assert verdict(report).cause is Cause.REAL_NEED


def test_the_long_form_with_a_code_is_t3() -> None:
    report = one(
        "E1000: CompileTimeHbmOom: Ran out of memory in memory space hbm. Used 20.00G of 15.75G "
        "hbm. Exceeded hbm capacity by 4.25G.\n\nTotal hbm usage >= 20.25G:\n    reserved 256.00M\n"
        "    program 20.00G\n    arguments 0B\n"
    )
    assert (report.template, report.code) == ("T3", "E1000")


def test_a_table_of_vmem_is_t8_with_windows_and_spills() -> None:
    text = """\
Ran out of memory in memory space vmem. Used 80.00M of 63.94M vmem. Exceeded vmem capacity by 16.06M.
Program vmem requirement 80.00M:
    scoped           80.00M
  Largest program allocations in vmem:
  1. Size: 64.00M
     Shape: f32[4096,4096]{1,0:T(8,128)}
     Unpadded size: 64.00M
     Tag: input window allocation for operator input 2. The window shape is f32[4096,4096], while the full shape is f32[8192,4096]. This allocation is double buffered.
     XLA label: mix-bm_512_256.4 = custom-call(a, b, c), custom_call_target="tpu_custom_call"
     Allocation type: scoped
     ==========================
  2. Size: 16.00M
     Shape: u8[16777216]{0}
     Unpadded size: 16.00M
     XLA label: register allocator spill slots call depth 2
     Allocation type: scoped
     ==========================
"""
    report = one(text)
    window, spill = report.entries

    assert report.template == "T8"
    assert (window.window.operand, window.window.is_double_buffered) == (2, True)
    assert window.window.window_shape == "f32[4096,4096]"
    assert window.window.full_shape == "f32[8192,4096]"
    assert (window.kernel, window.block_sizes) == ("mix", {"bm": (512, 256)})
    assert (window.is_spill, spill.is_spill) == (False, True)
    assert verdict(report).cause is Cause.SPILLS


@pytest.mark.parametrize("code", ["E1000: CompileTimeHbmOom: ", "E1000: CompileTimeHbmOom:\n", ""])
@pytest.mark.parametrize("module", [" HLO module: jit_train.v2.", ""])
@pytest.mark.parametrize("page", ["\nSee https://openxla.org/xla/errors/error_1000 for more.", ""])
def test_the_short_form_in_all_variants(code: str, module: str, page: str) -> None:
    text = (
        f"RESOURCE_EXHAUSTED: {code}Ran out of memory on HBM, the total memory required for HLO "
        f"temporaries (27.00G) exceeds available HBM (15.75G).{module}{page}"
    )
    messages, message = only(text)

    assert (message.template, message.required, message.available) == (
        "T2",
        size("27.00G"),
        size("15.75G"),
    )
    assert message.code == ("E1000" if code or page else None)
    assert message.module == ("jit_train.v2" if module else None)
    assert message.excess.bytes == 27 * GIB - 15.75 * GIB
    assert (messages.unknown, messages.problems) == ((), ())


def test_an_early_abort_in_exbibytes() -> None:
    message = one(
        "Aborting compilation early because it's unlikely to have enough memory. "
        "Requires 1.50E, has 15.48G available. If more detailed logging is desired …"
    )
    assert (message.template, message.required.bytes) == ("T4", 3 << 59)


def test_two_kinds_of_cores_exceed_together() -> None:
    message = one(
        "TPU TensorCore Hbm usage: 60.00G, SparseCore Hbm usage 50.00G, "
        "exceeding available bytes: 95.73G"
    )
    assert (message.template, message.alone_too_large) == ("T5", ())
    assert message.excess.bytes == pytest.approx(14.27 * GIB, abs=2)


@pytest.mark.parametrize("scoped", ["scoped, ", ""])
def test_one_buffer_larger_than_its_memory(scoped: str) -> None:
    message = one(
        "INTERNAL: Allocation (size=150994944) would exceed memory (size=134217728) :: "
        "#allocation7 [shape = 'f32[36,1024,1024]{2,1,0:T(8,128)}', space=vmem, "
        f"size = 0xffffffffffffffff, {scoped}tag = 'scratch operand'] :: <no-hlo-instruction>"
    )
    assert (message.template, message.size_bytes, message.capacity_bytes) == (
        "T6",
        150994944,
        134217728,
    )
    assert (message.allocation, message.space, message.tag) == (7, "vmem", "scratch operand")
    assert message.is_scoped is bool(scoped)
    assert message.shape.padded_bytes == message.size_bytes
    assert message.operation is None


@pytest.mark.parametrize("code", ["E1001: CompileTimeScopedVmemOom:\n", ""])
def test_scoped_vmem_of_a_users_kernel(code: str) -> None:
    message = one(
        f"RESOURCE_EXHAUSTED: {code}Ran out of memory in memory space vmem while allocating on "
        "stack for %flash.3 = (bf16[8,1024,128]{2,1,0:T(8,128)(2,1)}, f32[8,1024]{1,0:T(8,128)}) "
        'custom-call(%q, %k), custom_call_target="tpu_custom_call", '
        "operand_layout_constraints={bf16[8,1024,128]{2,1,0}, bf16[8,1024,128]{2,1,0}}, "
        'metadata={op_name="jit(f)/flash" source_file="attn.py" source_line=9}. Scoped allocation '
        "with size 24.50M and limit 16.00M exceeded scoped vmem limit by 8.50M. It should not be "
        "possible to run out of scoped vmem - please file a bug against XLA."
    )
    assert (message.template, message.code) == ("T7", "E1001" if code else None)
    assert (message.size, message.limit, message.over) == (
        size("24.50M"),
        size("16.00M"),
        size("8.50M"),
    )
    assert (message.name, message.opcode, message.is_users_kernel) == (
        "flash.3",
        "custom-call",
        True,
    )
    assert (len(message.results), len(message.operands)) == (2, 2)
    assert message.operator.source == "attn.py:9"
    assert message.asks_for_bug_report
    assert not message.takes_whole_operands
    assert verdict(message).cause is Cause.KERNEL


def test_scoped_vmem_of_the_compilers_own_fusion_is_the_compilers() -> None:
    message = one(
        "Ran out of memory in memory space vmem while allocating on stack for %fusion.12 = "
        "f32[512,512]{1,0:T(8,128)} fusion(%p), kind=kLoop. Scoped allocation with size 17.00M and "
        "limit 16.00M exceeded scoped vmem limit by 1.00M."
    )
    assert verdict(message).cause is Cause.COMPILER


# ---- run time -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pieces",
    [
        " Due to fragmentation, the largest contiguous region of free memory is 1.25G.",
        " The largest contiguous region of free memory is 1.25G due to fragmentation.",
    ],
)
@pytest.mark.parametrize("head", ["Error allocating device buffer: ", ""])
def test_a_buffer_that_finds_no_piece_large_enough(pieces: str, head: str) -> None:
    message = one(
        f"RESOURCE_EXHAUSTED: E0100: RuntimeBufferAllocationFailure:\n{head}Attempting to allocate "
        f"2.00G. That was not possible. There are 3.00G free.{pieces}; (1x0x1_HBM0)"
    )
    assert (message.template, message.code, message.place) == ("T9", "E0100", "1x0x1_HBM0")
    assert (message.largest, message.lack) == (size("1.25G"), Lack.FRAGMENTED)
    assert message.short.bytes == 0.75 * GIB
    assert verdict(message).cause is Cause.FRAGMENTED


def test_premapped_memory_is_the_hosts() -> None:
    message = one(
        "Failed to map the premapped region of the host: Attempting to allocate 64.00M. "
        "That was not possible. There are 12.00M free."
    )
    assert message.is_premapped
    assert verdict(message).cause is Cause.HOST


@pytest.mark.parametrize("name", [" 'jit_generate'", ""])
def test_a_program_that_cannot_reserve_its_temporaries(name: str) -> None:
    message = one(
        f"E0101: RuntimeProgramAllocationFailure:\nError loading program{name}: Attempting to "
        "reserve 12.21G at the bottom of\nmemory. That was not possible. There are 6.20G free, 0B "
        "reserved, and 6.20G reservable. Scope: unknown.."
    )
    assert (message.template, message.code) == ("T10", "E0101")
    assert message.program == ("jit_generate" if name else None)
    assert (message.lack, message.scope) == (Lack.FULL, "unknown")
    assert message.short.may_equal(size("6.01G"))


def test_a_programs_image_that_does_not_fit() -> None:
    message = one(
        "RuntimeProgramAllocationFailure: Error loading program 'jit_prefill': Attempting to "
        "allocate 1.15G. That was not possible. There are 1.13G free."
    )
    assert (message.template, message.program, message.lack) == ("T11", "jit_prefill", Lack.FULL)


def test_the_old_driver_says_bytes() -> None:
    message = one(
        "Could not allocate 4294967296 bytes in memory 0x0x0_HBM0; 1073741824 bytes allocatable, "
        "5368709120 bytes available"
    )
    assert (message.template, message.device) == ("T12", "0x0x0_HBM0")
    assert (message.lack, message.short_bytes) == (Lack.FRAGMENTED, 3 * GIB)


def test_an_argument_in_an_unexpected_memory() -> None:
    message = one(
        "E0102: RuntimeProgramInputMismatch: Executable(jit_step) got a parameter buffer for "
        "parameter 3 in an unexpected memory space 'pinned_host'"
    )
    assert (message.template, message.code) == ("T13", "E0102")
    assert (message.program, message.parameter) == ("jit_step", 3)
    assert (message.memory_space, message.expected) == ("pinned_host", None)


# ---- GPU ----------------------------------------------------------------------------------------


def test_a_gpus_table_of_the_peak() -> None:
    text = """\
RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3221225472 bytes.
BufferAssignment OOM Debugging.
BufferAssignment stats:
             parameter allocation:    2.00GiB
              constant allocation:       256B
        maybe_live_out allocation:    1.00GiB
     preallocated temp allocation:    3.00GiB
  preallocated temp fragmentation:   64.00MiB (2.08%)
                 total allocation:    6.00GiB
              total fragmentation:   64.00MiB (1.04%)
Peak buffers:
	Buffer 1:
		Size: 2.00GiB
		Operator: op_name="jit(f)/mul" source_file="f.py" source_line=3
		XLA Label: fusion
		Shape: f32[1024,524288]
		==========================

	Buffer 2:
		Size: 1.00GiB
		Entry Parameter Subshape: f16[1024,524288]
		==========================
"""
    messages, message = only(text)
    assert isinstance(message, GpuOutOfMemory)

    assert (message.template, message.request) == ("T15", PrintedSize(3 * GIB))
    assert message.stat("preallocated temp fragmentation") == size("64.00MiB")
    assert [(b.size, b.is_parameter) for b in message.buffers] == [
        (size("2.00GiB"), False),
        (size("1.00GiB"), True),
    ]
    assert message.buffers[0].operator.source == "f.py:3"
    assert (messages.unknown, messages.problems) == ((), ())
    assert verdict(message).cause is Cause.GPU


@pytest.mark.parametrize(
    "text",
    [
        "CUDNN_STATUS_INTERNAL_ERROR",
        "failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "FAILED_PRECONDITION: DNN library is not found.",
        "Failed to load in-memory CUBIN: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    ],
)
def test_libraries_of_gpus_without_memory(text: str) -> None:
    message = one(text)
    assert (message.template, verdict(message).cause) == ("T17", Cause.GPU)


# ---- others -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("buffers", "logical"),
    [
        ("f32[2,3]{1,0}, bf16[8]{0}", 24 + 16),
        ("ShapedArray(float32[2,3]), ShapedArray(int32[], weak_type=True)", 28),
        ("~float32[2,3], bfloat16[8]", 40),
        ("a buffer", None),
    ],
)
@pytest.mark.parametrize("platform", ["Donation is not implemented for ('cpu',).\n", ""])
def test_donated_arrays_that_were_not_used(
    buffers: str, logical: int | None, platform: str
) -> None:
    text = (
        f"UserWarning: Some donated buffers were not usable: {buffers}.\n{platform}"
        "See an explanation at https://docs.jax.dev/en/latest/faq.html#buffer-donation."
    )
    messages, message = only(text)

    assert (message.template, message.logical_bytes) == ("T18", logical)
    assert message.not_implemented_for == ("('cpu',)" if platform else None)
    assert messages.unknown == ()


def test_an_array_donated_twice() -> None:
    message = one(
        "INVALID_ARGUMENT: Attempt to donate the same buffer twice in Execute() (flattened "
        "argument 5, replica 0, partition 3, first use: 2). Toy example for this bug"
    )
    assert (message.template, message.argument, message.first_use) == ("T18", 5, 2)
    assert one("Invalid argument: Donation requested for invalid buffer").template == "T18"
    assert one("Buffer(s) ... buffer has been deleted or donated.").template == "T18"


def test_rematerialization_that_did_not_reach_its_goal() -> None:
    message = one(
        "W1130 11:32:24.138201   23722 hlo_rematerialization.cc:3231] Can't reduce memory use "
        "below 14.62GiB (15700276121 bytes) by rematerialization; only reduced to 18.28GiB "
        "(19628124672 bytes), down from 18.28GiB (19628125696 bytes) originally"
    )
    assert (message.template, message.original_bytes) == ("T19", 19628125696)
    assert message.excess_bytes == 19628124672 - 15700276121


def test_resharding_in_todays_words() -> None:
    message = one(
        "[SPMD] Involuntary full rematerialization. The compiler cannot go from sharding "
        "{mesh['x'=4,'y'=2], [{'y'}, {}, {'x'}]} to {devices=[2,1]<=[2,2]T(1,0) "
        "last_tile_dim_replicate} efficiently for HLO operation %add.0 = f32[192,384,96]{2,1,0} "
        'add(%a, %b), sharding={replicated}, metadata={op_name="jit(f)/add" stack_frame_id=3}. '
        "As the last resort, SPMD will replicate the tensor and then partition it."
    )
    assert message.template == "T20"
    assert message.sharding_from == "{mesh['x'=4,'y'=2], [{'y'}, {}, {'x'}]}"
    assert message.sharding_to == "{devices=[2,1]<=[2,2]T(1,0) last_tile_dim_replicate}"
    assert message.operation.startswith("%add.0 = f32[192,384,96]")
    assert (message.operator.op_name, message.operator.stack_frame_id) == ("jit(f)/add", 3)


@pytest.mark.parametrize("text", ["ShapedArray(float32[4,8])", "float32[4,8]"])
def test_a_refused_transfer_of_a_value(text: str) -> None:
    message = one(f"Disallowed host-to-device transfer: aval={text}, dst_sharding=SingleDevice(0)")
    assert (message.template, message.direction) == ("T21", "host-to-device")
    assert (message.logical_bytes, message.sharding) == (128, "SingleDevice(0)")
    assert message.is_refused


def test_a_transfer_that_is_only_logged() -> None:
    message = one(
        "W guard_lib.cc:83] device-to-host transfer: shape=(2,8), dtype=BF16, device=TPU_1"
    )
    assert (message.is_refused, message.logical_bytes, message.device) == (False, 32, "TPU_1")


def test_why_jax_traced_again() -> None:
    text = """\
TRACING CACHE MISS at /home/me/train.py:12:8 (main) because:
  for step defined at /home/me/train.py:4
  all previously seen cache keys differ. For the closest previous key:
  key with different input types:
    * at x[0], now float32[9] and before float32[8]
done
"""
    messages, message = only(text)

    assert (message.template, message.place, message.context) == (
        "T22",
        "/home/me/train.py:12:8",
        "main",
    )
    assert message.reasons[-1] == "* at x[0], now float32[9] and before float32[8]"
    assert messages.unknown == ((6, "done"),)
    seen = one(
        "TRACING CACHE MISS at a.py:1:1 (f):\n  never seen function:\n    f id=7 defined at a"
    )
    assert seen.is_new_function


def test_a_program_that_fits_is_no_error() -> None:
    messages, report = only(FITS)

    assert (report.template, report.fits, report.module) == ("T23", True, "jit_step")
    assert [(u.space, u.used) for u in report.usages] == [
        ("hbm", size("191.81M")),
        ("vmem", size("117.10M")),
        ("smem", size("2.4K")),
    ]
    assert [block.space for block in report.requirements] == ["sflag", "hbm"]
    assert report.requirement("hbm").part("overlays").size == size("4.01M")
    assert report.total("host").part("program").size is None
    assert report.total("hbm").output.shares == size("153.35M")
    assert (messages.unknown, messages.problems) == ((), ())
    assert verdict(report).cause is Cause.INFORMATION


@pytest.mark.parametrize("prefix", ["Post Compilation Analysis: ", ""])
def test_pytorchs_analysis_of_a_compilation(prefix: str) -> None:
    head = "Post Compilation Analysis: ====" if prefix else "Post Compilation Analysis\n===="
    rows = (
        "Graph input size: 1.500000 GB",
        "Graph output size: 7.250000 GB",
        "Aliased Input size: 1.500000 GB",
        "Intermediate tensor size: 12.125000 GB",
        "Compiled program size: 0.031250 GB",
    )
    message = one("\n".join([head, *(prefix + row for row in rows)]))

    assert (message.template, message.where.is_cut) == ("T24", False)
    assert message.intermediate.bytes == 12.125 * GIB
    assert message.program.bytes == 32 * MIB


def test_constants_that_take_time_or_room() -> None:
    folding = one("Constant folding an instruction is taking > 4s: %c = f32[8] reduce(%iota)")
    assert (folding.template, folding.seconds) == ("T25", 4.0)
    assert folding.operation == "%c = f32[8] reduce(%iota)"
    captured = one(
        "UserWarning: A large amount of constants were captured during lowering (2.15GB total). "
        "If this is intentional, disable this warning"
    )
    assert isinstance(captured, CapturedConstants)
    assert captured.total == PrintedSize(2_150_000_000, 5_000_000)  # JAX prints decimal units


def test_a_result_in_host_memory_without_its_layout() -> None:
    message = one(
        "E1200: CompileTimeHostOffloadOutputMismatch: Tensor which is moved to host (starting from "
        "tuple.3) is returned from the entry computation but the layout for this output is not set "
        "to host memory."
    )
    assert (message.template, message.code, message.tensor) == ("T26", "E1200", "tuple.3")


def test_the_usage_report_in_libtpus_log() -> None:
    text = """\
E1130 11:32:24.449795 1 deepsea_compiler_base.cc:3781] XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 18.61G of 15.75G hbm. Exceeded hbm capacity by 2.87G. HLO module: jit_loss. Memory usage report:

Memory Space: default (color=0)
Total bytes: 19987814912 (18.61GiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
   10.73GiB( 59%);   10.73GiB;        81920;                4; f32[90000,1000], 3\u00d7f32[90000,32000]
   18.16GiB(100%);       512B;            0;                1; (f32[1000], /*index=1*/bf16[8], u32[])

  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
  343.75MiB(100%);  343.75MiB;            0;                1; f32[90000,1000]

Memory Space: vmem (color=1)
Total bytes: 32804864 (31.29MiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
   31.25MiB(100%);   31.25MiB;            0;                2; 2\u00d7f32[8,1000,1000]
I1130 11:32:24.449796 1 somewhere.cc:1] done
"""
    messages, report = only(text)

    assert (report.template, report.module, report.over) == ("T27", "jit_loss", size("2.87G"))
    assert [(s.name, s.color, s.total_bytes) for s in report.usage] == [
        ("default", 0, 19987814912),
        ("vmem", 1, 32804864),
    ]
    first, table = report.usage[0].allocations[0].slots
    assert (first.offset, first.values, first.size) == (81920, 4, size("10.73GiB"))
    assert [(s.count, s.text) for s in first.shapes] == [
        (1, "f32[90000,1000]"),
        (3, "f32[90000,32000]"),
    ]
    assert len(table.shapes[0].arrays) == 3
    assert [number for number, _ in messages.unknown] == [19]


def test_the_limit_of_rematerialization() -> None:
    message = one(
        "XLA::TPU post optimization rematerialization limit 13.94G = 95% hbm (14.96G) - (arguments "
        "(1.02G) - aliased_output(0B)) - overlays (4.98M)"
    )
    assert (message.template, message.percent, message.limit) == ("T27", 95, size("13.94G"))
    assert (message.arguments, message.aliased_output) == (size("1.02G"), PrintedSize(0))


@pytest.mark.parametrize(
    "text", ["command terminated with exit code 137", "OOMKilled", "exited with code 137"]
)
def test_a_killed_process_is_the_hosts_memory(text: str) -> None:
    assert verdict(one(text)).cause is Cause.HOST


# ---- sums ---------------------------------------------------------------------------------------


def test_sums_that_do_not_come_out_are_a_problem() -> None:
    messages = read_messages(LONG.replace("arguments         4.00G", "arguments         3.00G"))

    (problem,) = messages.problems
    assert "the parts of hbm make 16.77 GiB, but 17.77 GiB is printed" in problem


def test_an_entry_that_is_left_out_is_a_problem() -> None:
    messages = read_messages(LONG.replace("  2. Size: 4.00G", "  4. Size: 4.00G"))

    (problem,) = messages.problems
    assert "entries 2 to 3 are missing in the table" in problem


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_that_were_broken_read_like_whole_ones(width: int) -> None:
    broken = "\n".join(
        part
        for line in LONG.split("\n")
        for part in textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        or [""]
    )
    messages, report = only(broken)

    assert (report.totals, report.requirements) == (one(LONG).totals, one(LONG).requirements)
    assert [e.operator for e in report.entries] == [e.operator for e in one(LONG).entries]
    assert [e.operands for e in report.entries] == [e.operands for e in one(LONG).entries]
    assert (messages.unknown, messages.problems) == ((), ())


@pytest.mark.parametrize(
    "piece", ["XLA label: (", "Shape: f32[", "> ", "Total hbm usage >= ", "HLO temp 1.0G (", "\n"]
)
def test_long_texts_of_one_line_take_no_long_time(piece: str) -> None:
    assert read_messages(piece * 5000).unknown is not None


def test_a_printed_exception_reads_like_the_exception() -> None:
    whole, printed = one(LONG), one(repr(LONG))

    assert printed.totals == whole.totals
    assert [e.label for e in printed.entries] == [e.label for e in whole.entries]
