"""What XLA writes beside a module, read as it was written: for a TPU (fits or not) and for a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.program.shapes import ArrayShape
from vtpu.reading.dump_names import DumpedModule, dump_files
from vtpu.reading.messages import read_messages
from vtpu.reading.messages.hbm_compile import ProgramTooLarge
from vtpu.reading.messages.tables import MemoryReport
from vtpu.reading.recognize import Kind, recognize
from vtpu.reading.text_dumps.buffer_assignment import read_buffer_assignment_text
from vtpu.reading.text_dumps.live_range import read_live_range
from vtpu.reading.text_dumps.usage_report import read_usage_report, read_usage_report_proto

PROGRAM = Path(__file__).parents[1] / "dump_program.py"
STAGE = "after_optimizations"
ROWS_THAT_DO_NOT_FIT = 4_000_000


@dataclass(frozen=True)
class Dump:
    module: DumpedModule
    printed: str
    log: str

    def text(self, report: str | None) -> str:
        path = self.module.find(STAGE, report, "text")
        assert path is not None
        return Path(path).read_text()

    def bytes(self, report: str | None) -> bytes:
        path = self.module.find(STAGE, report, "proto")
        assert path is not None
        return Path(path).read_bytes()


def dump(backend: str, rows: int, folder: Path) -> Dump:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "TPU_"))}
    run = subprocess.run(
        [sys.executable, str(PROGRAM), backend, str(rows), str(folder)],
        env=kept,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    names = [str(path) for path in folder.rglob("*") if path.is_file()]
    folder_of_modules = dump_files(names)
    assert folder_of_modules.unknown == ()
    (module,) = folder_of_modules.modules
    return Dump(module, run.stdout, run.stderr)


@pytest.fixture(scope="module", params=["tpu", "tpu, does not fit", "cpu"])
def dumped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dump:
    backend, _, fails = request.param.partition(",")
    return dump(backend, ROWS_THAT_DO_NOT_FIT if fails else 512, tmp_path_factory.mktemp("dump"))


@pytest.fixture(scope="module")
def too_large(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    return dump("tpu", ROWS_THAT_DO_NOT_FIT, tmp_path_factory.mktemp("too_large"))


def test_the_names_tell_module_and_backend(dumped: Dump) -> None:
    module = dumped.module
    assert module.name == "jit_step"
    assert module.backend in ("tpu", "cpu")
    assert module.ran_out_of_memory is bool(dumped.printed)
    assert module.find("before_optimizations", form="proto")
    assert module.find(STAGE, form="text")


def test_every_line_of_a_buffer_assignment_is_understood(dumped: Dump) -> None:
    text = dumped.text("buffer-assignment")
    read = read_buffer_assignment_text(text)

    assert (read.unknown, read.problems) == ((), ())
    assert len(read.allocations) == text.count("\nallocation ")
    values = [value for allocation in read.allocations for value in allocation.values]
    assert len(values) == text.count("\n value: ")
    arrays = [v.arrays[0] for v in values if v.arrays and not (v.shape_text or "").startswith("(")]
    assert all(isinstance(array, ArrayShape) for array in arrays)
    parameters = {a.parameter: a for a in read.allocations if a.parameter is not None}
    assert sorted(parameters) == [0, 1, 2]
    assert parameters[0].maybe_live_out  # it is donated
    assert not parameters[2].maybe_live_out
    assert any(a.is_preallocated_temp for a in read.allocations)
    assert any(a.output_shape for a in read.allocations)


def test_sizes_of_a_buffer_assignment_are_padded_sizes(dumped: Dump) -> None:
    """But for those that are smaller than what a memory hands out."""
    read = read_buffer_assignment_text(dumped.text("buffer-assignment"))
    values = [
        v for a in read.allocations if a.color == 0 for v in a.values if v.size and v.size > 4096
    ]
    for value in values:
        (array,) = value.arrays
        assert array.padded_bytes == value.size


def test_values_and_their_uses_are_understood(dumped: Dump) -> None:
    values = read_buffer_assignment_text(dumped.text("buffer-assignment-values"))
    read = read_buffer_assignment_text(dumped.text("buffer-assignment"))

    assert (values.unknown, values.problems) == ((), ())
    assert values.total_bytes == sum(a.size for a in read.allocations)
    known = {value.value.id: value for value in values.used_values}
    for allocation in read.allocations:
        for value in allocation.values:
            assert known[value.id].value.name == value.name
            assert known[value.id].positions
    assert any(value.uses for value in values.used_values)


def test_a_usage_report_adds_up_in_text_and_proto(dumped: Dump) -> None:
    text = read_usage_report(dumped.text("memory-usage-report"))
    proto = read_usage_report_proto(dumped.bytes("memory-usage-report"))

    assert (text.unknown, text.problems, proto.problems) == ((), (), ())
    assert [(s.color, s.total_bytes) for s in text.spaces] == [
        (s.color, s.total_bytes) for s in proto.spaces
    ]
    for with_name, exact in zip(text.spaces, proto.spaces, strict=True):
        assert exact.total_bytes == sum(a.size_bytes or 0 for a in exact.allocations)
        assert [a.slots for a in with_name.allocations] == [a.slots for a in exact.allocations]
        for allocation in with_name.allocations:
            for slot in allocation.slots:
                assert sum(shape.count for shape in slot.shapes) == slot.values
                assert all(shape.arrays for shape in slot.shapes)


def test_a_usage_report_and_a_buffer_assignment_agree(dumped: Dump) -> None:
    report = read_usage_report_proto(dumped.bytes("memory-usage-report"))
    read = read_buffer_assignment_text(dumped.text("buffer-assignment"))
    sizes = {a.number: a.size for a in read.allocations}

    for space in report.spaces:
        for allocation in space.allocations:
            assert sizes[allocation.number] >= (allocation.size_bytes or 0) - 64 * 1024


def test_every_line_of_live_ranges_is_understood(dumped: Dump) -> None:
    read = read_live_range(dumped.text("live-range"))

    assert (read.unknown, read.problems) == ((), ())
    assert len(read.schedule) == read.end
    assert read.ranges
    assert all(r.start <= r.end for r in read.ranges)
    peak = sum(value.logical_bytes for value in read.peak)
    assert read.places[0].total_bytes == peak
    assert sum(place.own_bytes for place in read.places) == peak


def test_each_file_is_recognized(dumped: Dump) -> None:
    expected = {
        (STAGE, None, "text"): Kind.HLO_TEXT,
        ("before_optimizations", None, "text"): Kind.HLO_TEXT,
        ("before_optimizations", None, "proto"): Kind.HLO_PROTO,
        (STAGE, None, "proto"): Kind.HLO_PROTO,
        (STAGE, "buffer-assignment", "text"): Kind.BUFFER_ASSIGNMENT,
        (STAGE, "buffer-assignment-values", "text"): Kind.BUFFER_ASSIGNMENT,
        (STAGE, "live-range", "text"): Kind.LIVE_RANGE,
        (STAGE, "memory-usage-report", "text"): Kind.USAGE_REPORT,
        (STAGE, "memory-usage-report", "proto"): Kind.USAGE_REPORT_PROTO,
    }
    for (stage, report, form), kind in expected.items():
        path = dumped.module.find(stage, report, form)
        assert path is not None
        data = Path(path).read_bytes()
        assert recognize(data) is kind
        if form == "proto":
            assert recognize(data[: len(data) // 2]) is kind


def test_a_dump_cut_anywhere_is_read(dumped: Dump) -> None:
    for report in ("buffer-assignment", "buffer-assignment-values", "live-range"):
        text = dumped.text(report)
        for end in range(0, len(text), max(1, len(text) // 60)):
            read_buffer_assignment_text(text[:end])
            read_live_range(text[:end])
            read_usage_report(text[:end])
    data = dumped.bytes("memory-usage-report")
    whole = read_usage_report_proto(data)
    for end in range(len(data)):
        cut = read_usage_report_proto(data[:end])
        assert cut.problems or cut == whole or len(cut.spaces) < len(whole.spaces)


def test_libtpus_log_tells_what_its_exception_does_not(too_large: Dump) -> None:
    (exception,) = read_messages(too_large.printed).found
    assert isinstance(exception, ProgramTooLarge)
    log = read_messages(too_large.log)
    reports = [m for m in log.found if isinstance(m, MemoryReport) and m.template == "T27"]
    if not reports:
        pytest.skip("this release of libtpu does not log the report")

    (report,) = reports
    assert report.used is not None
    assert exception.required is not None
    assert report.used.may_equal(exception.required)
    assert report.usage == read_usage_report(too_large.text("memory-usage-report")).spaces


# ---- older forms and foreign texts --------------------------------------------------------------

GPU = """\
BufferAssignment:
allocation 0: size 4194304, parameter 0, shape |f32[1024,1024]| at ShapeIndex {}:
 value: <3 p.0 @0> (size=4194304,offset=0): f32[1024,1024]{1,0}
allocation 1: 0x7f00deadbeef, size 8388608, color 1, output shape is |f32[2048,1024]|, maybe-live-out:
  <5 fusion.2{0} (phi) @1> [128,4194304]: f32[1024,1024]{1,0}

Total bytes used: 12582912 (12.00MiB)

Used values:
<3 p.0 @0>
 positions:
  p.0
 uses:
  fusion.2, operand 0
 from instruction: %p.0 = f32[1024,1024]{1,0} parameter(0)


HloLiveRange (max 2):
Peak buffers:
	Buffer 1:
		Size: 8.00MiB
		Operator: op_name="jit(g)/add" source_file="g.py" source_line=4
		XLA Label: fusion
		Shape: f32[2048,1024]
		==========================
"""


def test_the_older_form_of_gpus_is_understood() -> None:
    read = read_buffer_assignment_text(GPU)

    first, second = read.allocations
    assert (first.parameter, first.parameter_shape, first.color) == (0, "f32[1024,1024]", 0)
    assert (second.size, second.color, second.output_shape) == (8388608, 1, "f32[2048,1024]")
    (value,) = second.values
    assert (value.offset, value.size, value.index, value.is_phi) == (128, 4194304, "{0}", True)
    assert read.total_bytes == 12582912
    assert read.used_values[0].uses == ("fusion.2, operand 0",)
    (peak,) = read.peak_buffers
    assert peak.operator.source == "g.py:4"
    assert read.unknown == ((18, "HloLiveRange (max 2):"),)


def test_names_of_gpus_and_of_passes_are_grouped() -> None:
    folder = dump_files(
        [
            "d/module_0007.jit_f.sm_8.0_gpu_after_optimizations.txt",
            "d/module_0007.jit_f.sm_8.0_gpu_after_optimizations-buffer-assignment.txt",
            "d/module_0007.jit_f.before_optimizations.txt",
            "d/module_0007.jit_f.0003.simplify.after_fusion.before_dce.hlo.pb",
            "d/module_0007.jit_f.ptx",
            "d/module_0007.jit_f.gpu_target_config.pbtxt",
            "d/notes.txt",
            "d/module_0009.jit_f.clone.cl_5.before_optimizations.hlo.pb.gz",
        ]
    )
    first, second = folder.modules

    assert (first.number, first.name, first.backend, first.target) == (7, "jit_f", "gpu", "sm_8.0")
    assert len(first.files) == 5
    assert first.others == ("d/module_0007.jit_f.ptx",)
    assert (second.number, second.name, second.backend) == (9, "jit_f.clone", "tpu")
    assert folder.unknown == ("d/notes.txt",)


@given(st.text(max_size=400), st.integers(0, len(GPU)), st.integers(0, len(GPU)))
def test_foreign_texts_are_read_without_end(text: str, start: int, end: int) -> None:
    for each in (text, GPU[start:end] + text):
        read_buffer_assignment_text(each)
        read_live_range(each)
        read_usage_report(each)
        dump_files(each.split())
    assert read_live_range("").problems
    assert read_buffer_assignment_text("").problems == (
        "there is no buffer assignment in this text",
    )


@given(st.binary(max_size=300))
def test_foreign_bytes_are_no_report(data: bytes) -> None:
    assert read_usage_report_proto(data).spaces == () or data
