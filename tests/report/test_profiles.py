"""A run in time as an XSpace: what profilers find in it. jaxlib's own reader is asked too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timelines import BEGAN_UNIX_NS, PROGRAM, timed, timeline
from vtpu.analysis.measured.operations import read_core
from vtpu.analysis.measured.self_times import self_times
from vtpu.evidence import Basis
from vtpu.reading.buffer_assignment import find_assignment
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.xplane.reading import read_space
from vtpu.reading.xplane.writing import encode_space
from vtpu.report.profiles.detail import PASSES, WHOLE, choose_details
from vtpu.report.profiles.instruction_text import category_of, hlo_text
from vtpu.report.profiles.xspace import profile_space

MOST = 400_000


def number_in(stats, name):
    value = stats[name]
    assert isinstance(value, int | float)
    return value


def text_in(stats, name):
    value = stats[name]
    assert isinstance(value, str)
    return value


def device_plane(space, number=0):
    return space.plane(f"/device:TPU:{number}")


def kinds(plane, line):
    return [plane.metadata[n] for n in plane.line(line).events.metadata.tolist()]


def own_times(plane):
    """What each operation takes by itself over a plane, by name: picoseconds."""
    events = plane.line("XLA Ops").events
    own = self_times(events.offset_ps, events.end_ps)
    found = {}
    for kind, seconds in zip(kinds(plane, "XLA Ops"), own.tolist(), strict=True):
        found[kind.display_name] = found.get(kind.display_name, 0) + seconds
    return found


# ---- what is in it ----


def test_every_device_has_its_steps_programs_operations_and_transfers():
    space = profile_space(timeline(steps=3, devices=2))
    for number in (0, 1):
        plane = device_plane(space, number)
        assert [k.name for k in kinds(plane, "Steps")] == ["0", "1", "2"]
        assert [k.name for k in kinds(plane, "XLA Modules")] == ["jit_step(4711)"] * 3
        assert len(plane.line("XLA Ops").events) > 3 * 20
    assert device_plane(space, 0).line("Transfers").events.stat("bytes_transferred") == {
        0: 4096, 1: 4096, 2: 4096,
    }  # fmt: skip
    assert device_plane(space, 1).line("Transfers") is None


def test_a_step_reaches_to_the_next_so_that_its_idle_time_is_part_of_it():
    events = device_plane(profile_space(timeline(steps=3))).line("Steps").events
    assert (events.offset_ps[1:] - events.end_ps[:-1]).tolist() == [1, 1]


def test_the_passes_of_a_loop_are_all_there():
    for trips in (1, 5):
        plane = device_plane(profile_space(timeline(steps=1, trips=trips)))
        module = timed(trips).module
        loop = next(i for i in module.by_id.values() if i.opcode == "while")
        body = module.computations[loop.called[0]]
        names = [k.display_name for k in kinds(plane, "XLA Ops")]
        fusions = [i.name for i in body.instructions if i.opcode == "fusion"]
        assert fusions
        assert all(names.count(name) == trips for name in fusions)


def test_operations_carry_what_xprof_wants_to_know():
    plane = device_plane(profile_space(timeline()))
    module = timed().module
    by_name = {i.name: i for i in module.by_id.values()}
    for kind in kinds(plane, "XLA Ops"):
        assert kind.stats["program_id"] == 4711
        assert number_in(kind.stats, "symbol_id") > 0
        assert kind.stats["hlo_category"] == category_of(module, by_name[kind.display_name])
        assert kind.name == hlo_text(module, by_name[kind.display_name])
    stats = [k.stats for k in kinds(plane, "XLA Ops") if "tf_op" in k.stats]
    fusions = [s for s in stats if "fusion" in text_in(s, "hlo_category")]
    assert number_in(fusions[0], "flops") > 0
    assert number_in(fusions[0], "bytes_accessed") > 0
    assert text_in(fusions[0], "tf_op").endswith(":")
    assert text_in(fusions[0], "source").rpartition(":")[2].isdigit()


def test_a_transfer_beside_the_core_names_what_waits_for_it():
    plane = device_plane(profile_space(timeline()))
    line = plane.line("Async XLA Ops")
    waiting = line.events.stat("hlo_op")
    for row, kind in enumerate(kinds(plane, "Async XLA Ops")):
        assert kind.display_name.replace("-start", "-done") == waiting[row]


def test_the_device_says_what_it_is_and_its_peaks():
    stats = device_plane(profile_space(timeline()), 1).stats
    assert stats["device_type_string"] == "TPU v5 lite"
    assert stats["peak_teraflops_per_second"] == 197.0
    assert stats["peak_hbm_bw_gigabytes_per_second"] == 819.0
    assert stats["vtpu_time_basis"] == "modelled"


def test_the_peaks_of_a_chip_are_those_of_its_devices_together():
    stats = device_plane(profile_space(timeline(slice="tpu7x:2x2x1"))).stats
    assert stats["peak_teraflops_per_second"] == pytest.approx(2307 / 2, rel=0.01)


def test_a_slice_that_vtpu_does_not_know_has_no_peaks():
    stats = device_plane(profile_space(timeline(slice="v99:2x2"))).stats
    assert "peak_teraflops_per_second" not in stats


def test_the_modules_are_in_with_their_buffer_assignments():
    plane = profile_space(timeline()).plane("/host:metadata")
    assert list(plane.metadata) == [4711]
    proto = plane.metadata[4711].stats["Hlo Proto"]
    assert read_wrapped_module(proto).name == "jit_step"
    assert find_assignment(proto)


def test_a_launch_on_the_host_is_linked_to_its_executions():
    space = profile_space(timeline(steps=2, devices=2))
    host = space.plane("/host:CPU").lines[0]
    launched = set(host.events.stat("_p").values())
    assert launched == {1, 2}
    for number in (0, 1):
        assert (
            set(device_plane(space, number).line("XLA Modules").events.stat("_c").values())
            == launched
        )


def test_a_profile_says_that_its_times_are_modelled_and_how_well():
    [note] = profile_space(timeline()).warnings
    assert "modelled, not measured" in note
    assert "-10 % and +20 %" in note


def test_an_execution_without_a_model_says_that_its_time_is_the_hosts():
    run = timeline(steps=1)
    run = replace(
        run,
        programs={PROGRAM: replace(timed(), time=None)},
        executions=tuple(replace(e, basis=Basis.MEASURED) for e in run.executions),
    )
    space = profile_space(run)
    plane = device_plane(space)
    assert "measured on this machine" in text_in(plane.stats, "vtpu_time_basis")
    assert plane.line("XLA Ops") is None
    assert any("no model of jit_step" in note for note in space.warnings)


def test_a_run_without_any_execution_is_a_profile_too():
    space = profile_space(timeline(steps=0))
    assert read_space(encode_space(space)).problems == ()
    assert device_plane(space).lines == ()


def test_jaxlib_reads_the_lines_and_their_times():
    jax = pytest.importorskip("jax")
    space = profile_space(timeline(steps=2, devices=1))
    planes = jax.profiler.ProfileData.from_serialized_xspace(encode_space(space)).planes
    plane = next(p for p in planes if p.name == "/device:TPU:0")
    lines = {line.name: list(line.events) for line in plane.lines}
    assert [e.name for e in lines["XLA Modules"]] == ["jit_step(4711)"] * 2
    assert lines["XLA Modules"][0].start_ns == BEGAN_UNIX_NS
    seconds = timed().time.total.seconds
    assert lines["XLA Modules"][1].duration_ns == pytest.approx(seconds * 1e9, rel=1e-6)
    assert len(lines["XLA Ops"]) == len(device_plane(space).line("XLA Ops").events)


# ---- a bounded number of events ----


@settings(max_examples=20)
@given(st.integers(0, 3000), st.integers(1, 40))
def test_however_few_events_the_times_of_a_device_are_the_same(most, trips):
    whole = device_plane(profile_space(timeline(steps=4, trips=trips, devices=1), MOST))
    fewer = device_plane(profile_space(timeline(steps=4, trips=trips, devices=1), most))
    assert sum(own_times(fewer).values()) == pytest.approx(sum(own_times(whole).values()), abs=500)
    if "all operations" not in own_times(fewer):
        for name, own in own_times(whole).items():
            assert own_times(fewer)[name] == pytest.approx(own, abs=500)  # picoseconds, by rounding


def test_what_is_not_shown_one_by_one_is_said():
    space = profile_space(timeline(steps=4, trips=40, devices=1), 1000)
    left = number_in(device_plane(space).stats, "vtpu_events_left_out")
    shown = len(device_plane(space).line("XLA Ops").events)
    beside = device_plane(space).line("Async XLA Ops")
    shown += len(beside.events) if beside else 0
    whole = device_plane(profile_space(timeline(steps=4, trips=40, devices=1)))
    everything = sum(len(whole.line(n).events) for n in ("XLA Ops", "Async XLA Ops"))
    assert left >= everything - shown > 0
    assert any("not shown one by one" in note for note in space.warnings)


def test_a_pass_that_stands_for_many_has_the_flops_of_all():
    space = profile_space(timeline(steps=1, trips=40, devices=1), 300)
    many = [k for k in kinds(device_plane(space), "XLA Ops") if "vtpu_passes" in k.stats]
    assert many
    one = {k.display_name: k for k in kinds(device_plane(profile_space(timeline())), "XLA Ops")}
    for kind in many:
        if "flops" in kind.stats:
            of_one = number_in(one[kind.display_name].stats, "flops")
            passes = number_in(kind.stats, "vtpu_passes")
            assert number_in(kind.stats, "flops") == of_one * passes


def test_a_profile_read_back_counts_every_pass():
    """What stands for many passes is counted as many, with the FLOPs of one."""
    whole = read_core(device_plane(profile_space(timeline(trips=40), MOST)), {})
    fewer = read_core(device_plane(profile_space(timeline(trips=40), 3000)), {})
    expected = {o.name: o for o in whole.operations}
    counts: dict[str, int] = {}
    for operation in fewer.operations:
        counts[operation.name] = counts.get(operation.name, 0) + operation.count
        assert operation.flops == expected[operation.name].flops
    assert counts == {name: o.count for name, o in expected.items()}


sizes = st.lists(st.integers(1, 50), min_size=len(PASSES), max_size=len(PASSES)).map(
    lambda found: sorted(found, reverse=True)
)


@given(st.dictionaries(st.integers(0, 3), sizes, min_size=1), st.data(), st.integers(0, 400))
def test_details_keep_within_the_number_of_events(known, data, most):
    executions = data.draw(st.lists(st.sampled_from([*known, 99]), max_size=12))
    details = choose_details(executions, known, most)
    events = 0
    for program, detail in zip(executions, details, strict=True):
        is_one = detail == WHOLE or program not in known
        events += 1 if is_one else known[program][PASSES.index(detail.passes)]
    assert events <= max(most, len(executions))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9))
def test_with_room_for_all_every_execution_is_shown_in_full(counts):
    known = {i: [n] * len(PASSES) for i, n in enumerate(counts)}
    details = choose_details(list(known), known, sum(counts))
    assert all(detail.passes is None and not detail.is_whole for detail in details)


def test_planes_of_devices_that_run_the_same_share_their_kinds():
    space = profile_space(timeline(steps=1, devices=2))
    one, other = device_plane(space, 0), device_plane(space, 1)
    shared = one.metadata.keys() & other.metadata.keys()
    assert len(shared) > 20
    assert all(one.metadata[n] is other.metadata[n] for n in shared)
    assert read_space(encode_space(space)).space == space


def test_many_events_stand_in_the_order_of_their_begin():
    events = (
        device_plane(profile_space(timeline(steps=30, trips=100, devices=1))).line("XLA Ops").events
    )
    assert len(events) > 20_000
    assert (np.diff(events.offset_ps) >= 0).all()
