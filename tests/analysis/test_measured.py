"""Profiles of hardware in tables: own times, steps, rates, layers, communication, what is missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recordings import program, recording, run_record
from timelines import dumped, timed, timeline
from vtpu.analysis.measured.against import compare_with_recording, core_times
from vtpu.analysis.measured.hardware import HardwareKind
from vtpu.analysis.measured.operations import collective_in
from vtpu.analysis.measured.summary import summarize_profile
from vtpu.analysis.timeline.times import without_times
from vtpu.reading.xplane.collecting import Entry, Kinds, collect
from vtpu.reading.xplane.reading import ReadProfile, read_space
from vtpu.reading.xplane.space import EventMetadata, Events, Line, Plane, Space, StatColumn
from vtpu.reading.xplane.writing import encode_space
from vtpu.report.profiles.xspace import profile_space

US = 10**6  # picoseconds


def op(name, category="loop fusion", **stats):
    return EventMetadata(name=f"%{name} = f32[8] op()", display_name=name,
                         stats={"hlo_category": category, **stats})  # fmt: skip


class Core:
    """A core's plane, event by event. Times are microseconds."""

    def __init__(self, name="/device:TPU:0", **stats):
        self._kinds = Kinds()
        self._known = {}
        self._lines = {}
        self._name = name
        self._stats = {"device_type_string": "TPU v5 lite", **stats}

    def add(self, line, kind, start, end, **stats):
        name = kind if isinstance(kind, str) else kind.display_name
        if name not in self._known:
            made = self._kinds.named(name) if isinstance(kind, str) else self._kinds.add(kind)
            self._known[name] = made
        number = self._known[name]
        entry = Entry(metadata=number, offset_ps=round(start * US),
                      duration_ps=round((end - start) * US), stats=stats)  # fmt: skip
        self._lines.setdefault(line, []).append(entry)
        return self

    def plane(self):
        lines = tuple(
            Line(id=i, name=name, events=collect(entries))
            for i, (name, entries) in enumerate(self._lines.items())
        )
        return Plane(
            id=1, name=self._name, lines=lines, metadata=self._kinds.metadata, stats=self._stats
        )


def summary(*planes, problems=()):
    return summarize_profile([ReadProfile(Space(planes=planes), problems)])


def training(name="/device:TPU:0", **stats):
    """Two executions of a step of 100 us each, 150 us apart, with a loop of two passes."""
    core = Core(name, **stats)
    loop, fusion = op("while.1", "while"), op("fusion.2", flops=10**6, bytes_accessed=4 * 10**6,
                                              tf_op="jit(step)/block_0/mlp/dot_general:",
                                              source="train.py:12")  # fmt: skip
    gather = op("all-gather-done.3", "all-gather-done")
    for start in (0, 150):
        core.add("XLA Modules", "jit_step(99)", start, start + 100)
        core.add("XLA Ops", loop, start, start + 60)
        for at in (start, start + 30):
            core.add("XLA Ops", fusion, at, at + 25)
        core.add("XLA Ops", gather, start + 60, start + 80)
        core.add("Async XLA Ops", op("all-gather-start.3", "all-gather-start"), start + 5, start + 80,
                 hlo_op="all-gather-done.3")  # fmt: skip
    return core.plane()


def test_operations_have_their_own_times_and_rates():
    found = {o.name: o for o in summary(training()).operations}
    assert found["while.1"].self_s == pytest.approx(2 * 10e-6)
    assert (found["fusion.2"].count, found["fusion.2"].self_s) == (4, pytest.approx(100e-6))
    assert found["fusion.2"].flops_per_s == pytest.approx(4e6 / 100e-6)
    assert found["fusion.2"].bytes_per_s == pytest.approx(16e6 / 100e-6)
    assert found["fusion.2"].program == "jit_step"
    assert found["all-gather-done.3"].async_s == pytest.approx(2 * 75e-6)


def test_the_times_of_operations_and_of_what_is_between_add_up():
    profile = summary(training())
    assert profile.operations_s == pytest.approx(profile.cores[0].operations_s)
    assert profile.cores[0].busy_s == pytest.approx(200e-6)
    assert profile.cores[0].window_s == pytest.approx(250e-6)


def test_without_marks_executions_of_the_longest_program_are_the_steps():
    steps = summary(training()).steps
    assert (steps.count, steps.found) == (2, "executions of jit_step")
    assert steps.median_s == pytest.approx(100e-6)
    assert steps.period_median_s == pytest.approx(150e-6)


def test_steps_that_the_profile_marks_are_taken():
    plane = Core().add("Steps", "1", 0, 10).add("Steps", "2", 10, 40).plane()
    steps = summary(plane).steps
    assert (steps.count, steps.found) == (2, "steps of the profile")
    assert (steps.least_s, steps.most_s) == (pytest.approx(10e-6), pytest.approx(30e-6))


def test_operations_are_gathered_by_layer_and_line():
    profile = summary(training())
    assert {p.name: round(p.self_s * 1e6) for p in profile.layers} == {"block_0/mlp": 100, "": 60}
    assert profile.layers[0].flops == 4 * 10**6
    assert [p.name for p in profile.lines] == ["train.py:12", ""]


def test_communication_is_exposed_where_the_core_waits():
    [found] = summary(training()).communication
    assert (found.kind, found.count) == ("all-gather", 2)
    assert found.exposed_s == pytest.approx(40e-6)
    assert found.async_s == pytest.approx(150e-6)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("all-reduce", "all-reduce"),
        ("all-gather-start", "all-gather"),
        ("async-done %reduce-scatter-done.1 = f32[8] async-done()", "reduce-scatter"),
        ("collective-permute-done", "collective-permute"),
        ("all-reduce fusion", "all-reduce"),
        ("loop fusion %fusion = f32[8] fusion(f32[8] %copy-done)", ""),
    ],
)
def test_communication_is_told_from_category_and_text(text, kind):
    assert collective_in(text) == kind


def test_cores_are_added_up():
    profile = summary(training("/device:TPU:0"), training("/device:TPU:1"))
    assert len(profile.cores) == 2
    assert {o.name: o.count for o in profile.operations}["fusion.2"] == 8
    assert profile.steps.count == 2


def test_the_clock_of_the_device_counts_where_events_have_it():
    rows = np.arange(1)
    stats = (
        StatColumn("device_offset_ps", rows, np.array([7 * US], np.uint64)),
        StatColumn("device_duration_ps", rows, np.array([9 * US], np.uint64)),
    )
    events = Events(np.array([1]), np.array([0]), np.array([20 * US]), stats)
    plane = Plane(id=1, name="/device:TPU:0", lines=(Line(id=1, name="XLA Ops", events=events),),
                  metadata={1: op("fusion")})  # fmt: skip
    assert summary(plane).operations[0].self_s == pytest.approx(9e-6)


def test_the_module_in_the_profile_names_what_its_events_do_not():
    module, data = dumped()
    fusion = next(i for i in module.by_id.values() if i.opcode == "fusion" and "/" in i.op_name)
    core = Core().add("XLA Modules", "jit_step(99)", 0, 10)
    core.add("XLA Ops", op(fusion.name, program_id=99), 0, 10)
    metadata = Plane(id=2, name="/host:metadata",
                     metadata={99: EventMetadata(name="jit_step(99)", stats={"Hlo Proto": data})})  # fmt: skip
    [found] = summary(core.plane(), metadata).operations
    assert found.op_name == fusion.op_name
    assert found.line


# ---- what is missing ----


def test_an_unknown_chip_is_named_and_its_own_peaks_are_used():
    profile = summary(training(device_type_string="TPU v99", peak_teraflops_per_second=12.0))
    assert profile.hardware.generation is None
    assert profile.hardware.peak_flops_per_s == 12e12
    assert any("does not know the chip 'TPU v99'" in note for note in profile.notes)
    assert profile.operations


@pytest.mark.parametrize(
    ("kind", "generation"),
    [("TPU v4", "v4"), ("TPU v5 lite", "v5e"), ("TPU v6 Lite", "v6e"), ("TPU v5", "v5p")],
)
def test_chips_are_known_by_what_profiles_call_them(kind, generation):
    assert summary(training(device_type_string=kind)).hardware.generation == generation


def test_a_profile_of_a_gpu_shows_its_kernels_and_says_so():
    core = Core("/device:GPU:0", device_type_string="", gpu_device_name="NVIDIA A100")
    core.add(
        "Stream #13(Compute)", "loop_fusion_1", 0, 10, hlo_op="fusion.1", hlo_module="jit_step"
    )
    core.add("Stream #20(Compute)", "ncclDevKernel_AllReduce_Sum", 5, 15)
    core.add("XLA Modules", "jit_step", 0, 15)
    profile = summary(core.plane())
    assert (profile.hardware.kind, profile.hardware.name) == (HardwareKind.GPU, "NVIDIA A100")
    assert {o.name: o.collective for o in profile.operations} == {
        "loop_fusion_1": "", "ncclDevKernel_AllReduce_Sum": "all-reduce",
    }  # fmt: skip
    assert profile.cores[0].busy_s == pytest.approx(15e-6)
    assert any("is of a GPU" in note for note in profile.notes)


def test_a_profile_of_the_host_alone_shows_what_xla_ran_there():
    core = Core("/host:CPU")
    core.add("python", "$train.py:3 step", 0, 100)
    core.add("tf_XLAPjRtCpuClient", "dot.1", 10, 20, hlo_op="dot.1", hlo_module="jit_step")
    profile = summary(core.plane())
    assert profile.hardware.kind is HardwareKind.HOST
    assert [o.name for o in profile.operations] == ["dot.1"]
    assert any("only the host was traced" in note for note in profile.notes)


def test_a_profile_without_planes_says_so():
    assert any("no plane at all" in note for note in summary().notes)
    assert summary().steps is None


def test_a_cut_profile_shows_what_is_before_the_cut():
    data = encode_space(Space(planes=(training(),)))
    read = read_space(data[: len(data) // 2])
    profile = summarize_profile([read])
    assert profile.problems
    assert profile.notes


def test_every_beginning_of_a_profile_can_be_summarized():
    data = encode_space(Space(planes=(training(),)))
    for end in range(0, len(data), 7):
        summarize_profile([read_space(data[:end])])


def test_a_profile_that_vtpu_wrote_is_modelled():
    profile = summarize_profile([ReadProfile(profile_space(timeline()))])
    assert profile.hardware.is_modelled
    assert any("modelled, not measured" in note for note in profile.notes)


# ---- against a recording ----


def recorded(**fields):
    """A recording with the program of the dump, as `vtpu run` keeps it."""
    import zlib

    _, data = dumped()
    known = program(3, hlo=zlib.compress(data), **fields)
    return recording(programs=(known,), run=run_record(slice="v5e:2x2"))


def times(_program):
    return timed().time


def measured(run=None):
    return summarize_profile([ReadProfile(profile_space(run or timeline(steps=2, devices=2)))])


def test_a_profile_made_of_the_prediction_differs_in_nothing():
    [found] = compare_with_recording(measured(), recorded(), times).programs
    assert found.common == 1.0
    assert found.predicted_s == pytest.approx(found.measured_s)
    assert all(abs(row.difference_s) < 1e-11 for row in found.operations)
    assert found.sums.only_predicted_s == found.sums.only_measured_s == 0.0


def test_both_sides_add_up_to_what_was_predicted_and_measured():
    slower = timeline(steps=2, devices=1, trips=5)
    [found] = compare_with_recording(measured(slower), recorded(), times).programs
    sums = found.sums
    core = sum(core_times(timed().time, timed().module).values())
    assert sums.both_predicted_s + sums.only_predicted_s == pytest.approx(core)
    whole = sums.both_measured_s + sums.only_measured_s + sums.between_s
    assert whole == pytest.approx(found.measured_s)
    for rows in (found.operations, found.layers):
        assert sum(r.predicted_s or 0 for r in rows) == pytest.approx(core)
        assert sum(r.measured_s or 0 for r in rows) == pytest.approx(
            sums.both_measured_s + sums.only_measured_s
        )
        differences = [abs(row.difference_s) for row in rows]
        assert differences == sorted(differences, reverse=True)


def test_operations_of_another_compiler_are_named_apart():
    core = Core().add("XLA Modules", "jit_step(1)", 0, 100)
    names = [o.name for o in measured().operations]
    for at, name in enumerate([*names, "fusion.of.another"]):
        core.add("XLA Ops", op(name), at, at + 1)
    found = compare_with_recording(summary(core.plane()), recorded(), times)
    [compared] = found.programs
    assert compared.sums.only_measured_s == pytest.approx(1e-6)
    assert any("another release of the compiler" in note for note in found.notes)


def test_programs_of_one_side_are_named():
    other = summary(Core().add("XLA Modules", "jit_other(1)", 0, 10).plane())
    found = compare_with_recording(other, recorded(), times)
    assert (found.only_measured, found.only_recorded) == (("jit_other",), ("jit_step",))
    assert any("no program of the profile is in the recording" in note for note in found.notes)


def test_a_program_of_the_same_name_and_other_operations_is_no_match():
    core = (
        Core().add("XLA Modules", "jit_step(1)", 0, 10).add("XLA Ops", op("nothing.alike"), 0, 10)
    )
    assert compare_with_recording(summary(core.plane()), recorded(), times).programs == ()


def test_without_a_model_the_measured_side_stands_alone():
    [found] = compare_with_recording(measured(), recorded(), without_times).programs
    assert found.predicted_s is None
    assert found.sums.only_measured_s == pytest.approx(found.measured_s)


def test_another_chip_is_noted():
    run = recorded()
    run = replace(run, run=replace(run.run, slice="v4:2x2x1"))
    found = compare_with_recording(measured(), run, times)
    assert any("the profile is of v5e and the recording of v4" in note for note in found.notes)
