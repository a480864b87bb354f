from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings

from timed_programs import (
    HBM_BYTES,
    PEAK_FLOPS,
    Compute,
    Event,
    Loop,
    Start,
    Sync,
    events,
    ticks_of,
    timed,
)
from vtpu.analysis.time.accounting import Timelines, account_of
from vtpu.analysis.time.critical_path import critical_path_of
from vtpu.analysis.time.report import TimeReport, report_time
from vtpu.analysis.time.retiming import step_without
from vtpu.clock.program_time import Lane
from vtpu.clock.resources import Resource

MXU, VPU, HBM, ICI = Resource.MXU, Resource.VPU, Resource.HBM, Resource.ICI
_REMOVED = [None, MXU, VPU, HBM, ICI, Resource.HOST_LINK]


def report(*made: Event) -> TimeReport:
    return report_time(*timed(made))


def one_for_each_lane(made: Sequence[Event]) -> list[Event]:
    """The events with no more than one transfer on a lane, and no loops."""
    kept: list[Event] = [Compute({MXU: 3})]
    used: set[Lane] = set()
    for event in made:
        lane = event.lane if isinstance(event, Start) else Lane.LINKS
        if isinstance(event, Start | Sync) and lane not in used:
            kept.append(event)
            used.add(lane)
        elif isinstance(event, Compute):
            kept.append(event)
    return kept


# ---- laws --------------------------------------------------------------------------------------


@given(events)
@settings(max_examples=150, deadline=None)
def test_a_made_up_time_is_what_a_machine_takes(made: Sequence[Event]) -> None:
    """Of the test's own programs, so that the laws below speak of something."""
    assert timed(made)[1].total.seconds == pytest.approx(ticks_of(made) / 1000)


@given(events)
@settings(max_examples=150, deadline=None)
def test_operations_and_waits_are_the_step_and_nothing_is_left_over(made: Sequence[Event]) -> None:
    module, time = timed(made)
    account = account_of(time, Timelines(module, time))
    parts = [*account.core.values(), *account.waits.values()]
    assert sum(parts) + account.idle_s == pytest.approx(time.total.seconds)
    assert account.idle_s == pytest.approx(0, abs=1e-9)
    assert min(parts, default=0) >= -1e-12


@given(events)
@settings(max_examples=150, deadline=None)
def test_the_critical_path_is_as_long_as_the_step(made: Sequence[Event]) -> None:
    module, time = timed(made)
    path = critical_path_of(time, Timelines(module, time))
    parts = [*path.core.values(), *path.beside.values()]
    assert sum(parts) + path.idle_s == pytest.approx(time.total.seconds)
    assert min(parts, default=0) >= -1e-12


@given(events)
@settings(max_examples=150, deadline=None)
def test_a_step_without_a_resource_takes_what_a_machine_without_it_takes(
    made: Sequence[Event],
) -> None:
    """Where nothing queues: who was behind whom in a queue may change with the times."""
    one_at_a_time = one_for_each_lane(made)
    module, time = timed(one_at_a_time)
    for removed in _REMOVED:
        found = step_without(module, time, Timelines(module, time), removed)
        assert found.seconds == pytest.approx(ticks_of(one_at_a_time, removed) / 1000)


@given(events)
@settings(max_examples=150, deadline=None)
def test_without_any_resource_a_step_is_not_longer_and_what_bounds_it_is_all_of_it(
    made: Sequence[Event],
) -> None:
    module, time = timed(made)
    timelines = Timelines(module, time)
    now = step_without(module, time, timelines, None)
    assert now.seconds == pytest.approx(time.total.seconds)
    for removed in _REMOVED:
        without = step_without(module, time, timelines, removed)
        assert without.seconds <= now.seconds + 1e-9
        assert sum(without.bounds.values()) == pytest.approx(without.seconds)
        assert removed is None or removed not in without.bounds


@given(events)
@settings(max_examples=100, deadline=None)
def test_groups_of_every_sort_sum_to_the_step(made: Sequence[Event]) -> None:
    module, time = timed(made)
    found = report_time(module, time)
    for groups in (found.layers, found.phases, found.kinds):
        assert sum(g.seconds for g in groups) + found.idle_s == pytest.approx(time.total.seconds)
        assert sum(g.flops for g in groups) == time.flops
        assert sum(g.hbm_bytes for g in groups) == time.hbm_bytes
    assert sum(found.bounds.values()) == pytest.approx(time.total.seconds)


# ---- what is said of small programs ------------------------------------------------------------


def test_a_transfer_that_the_core_covers_costs_nothing() -> None:
    found = report(Start(Lane.MEMORY, 10, 1), Compute({MXU: 20, HBM: 5}))
    assert found.seconds == pytest.approx(0.020)
    assert dict(found.bounds) == {MXU: pytest.approx(0.020)}
    assert [(s.row.kind, s.is_beside) for s in found.path] == [("matrix product", False)]


def test_without_what_bounds_the_step_the_transfer_bounds_it() -> None:
    found = report(Start(Lane.MEMORY, 10, 1), Compute({MXU: 20, VPU: 5}))
    (best, *_) = found.what_ifs
    assert (best.resource, best.next_bound) == (MXU, HBM) or best.next_bound is VPU
    assert best.seconds == pytest.approx(0.010)


def test_a_wait_is_the_transfers_and_its_chain_is_the_path() -> None:
    found = report(Start(Lane.LINKS, 30, 1), Compute({MXU: 20}), Compute({VPU: 5}))
    assert found.seconds == pytest.approx(0.035)
    by_kind = {r.kind: r for r in found.rows}
    assert by_kind["copy"].waited_s == pytest.approx(0.010)
    assert {s.row.kind: s.seconds for s in found.path} == {
        "copy": pytest.approx(0.030),
        "vector operation": pytest.approx(0.005),
    }


def test_what_a_transfer_queued_behind_is_on_the_path() -> None:
    first, second = Start(Lane.MEMORY, 30, 3), Start(Lane.MEMORY, 20, 1)
    found = report(first, second, Compute({MXU: 10}))
    assert found.seconds == pytest.approx(0.050)
    assert [s.seconds for s in found.path] == [pytest.approx(0.030), pytest.approx(0.020)]
    assert all(s.is_beside for s in found.path)


def test_a_collective_without_start_and_done_is_exposed_in_full() -> None:
    found = report(Compute({MXU: 20}), Sync(30))
    (one,) = found.communications
    assert (one.kind, one.exposed_s) == ("all-reduce", pytest.approx(0.030))
    assert found.exposed_s == pytest.approx(0.030)


def test_a_loop_counts_as_often_as_it_runs() -> None:
    found = report(Loop((Compute({MXU: 20}), Sync(5)), 3))
    assert found.seconds == pytest.approx(0.075)
    assert {r.kind: r.seconds for r in found.rows if r.seconds > 1e-9} == {
        "matrix product": pytest.approx(0.060),
        "all-reduce": pytest.approx(0.015),
    }


def test_utilisation_is_of_the_step() -> None:
    found = report(Compute({MXU: 20, HBM: 10}), Sync(20))
    assert found.hfu == pytest.approx(0.010 * PEAK_FLOPS / (0.040 * PEAK_FLOPS))
    assert found.hbm_utilisation == pytest.approx(0.005 * HBM_BYTES / (0.040 * HBM_BYTES))


def test_an_operation_reaches_a_part_of_the_peak_that_bounds_it() -> None:
    (row,) = report(Compute({MXU: 20, HBM: 10})).rows
    assert row.of_peak == pytest.approx(0.5)
    assert row.intensity == pytest.approx(0.010 * PEAK_FLOPS / (0.005 * HBM_BYTES))
    assert row.next_bound == (HBM, pytest.approx(0.010))


def test_the_compilers_cycles_are_of_what_would_be_next() -> None:
    module, time = timed([Compute({MXU: 20, HBM: 10})])
    (number,) = time.operations
    operation = time.operations[number]
    busy = {Resource.COMPILER: 0.020, VPU: 0.015, HBM: 0.010}
    counted = replace(operation, bound=Resource.COMPILER, busy=busy)
    found = report_time(module, replace(time, operations={number: counted}))
    assert dict(found.bounds) == {VPU: pytest.approx(0.020)}
    assert found.rows[0].next_bound == (HBM, pytest.approx(0.010))


def test_what_is_recomputed_does_not_count_for_mfu() -> None:
    module, time = timed([Compute({MXU: 20}), Compute({MXU: 20})])
    first, second = module.computations[module.entry].instructions
    path = "jit(s)/checkpoint/rematted_computation/dot"
    again = replace(second, op_name=path)
    entry = replace(module.computations[module.entry], instructions=(first, again))
    found = report_time(replace(module, computations={module.entry: entry}), time)
    assert found.mfu == pytest.approx(0.25)
    assert found.hfu == pytest.approx(0.5)


def test_an_operation_without_a_model_is_told_beside_the_total() -> None:
    module, time = timed([Compute({MXU: 20}), Compute({MXU: 10, HBM: 10})])
    first, second = time.operations
    unknown = replace(time.operations[second], time=None, bound=None, busy={}, flops=None)
    entry = time.passes[time.entry]
    spans = tuple(s for s in entry.spans if s.instruction == first)
    without = replace(
        time,
        total=time.operations[first].time,
        operations={**time.operations, second: unknown},
        passes={time.entry: replace(entry, seconds=0.020, spans=spans)},
        without_model=(second,),
        unmodelled_bytes=unknown.hbm_bytes or 0,
    )
    found = report_time(module, without)
    assert [r.instruction.id for r in found.unmodelled.rows] == [second]
    assert found.unmodelled.has_unknown_flops
    assert found.unmodelled.hbm_share == pytest.approx(1)
    assert sum(r.seconds for r in found.rows) == pytest.approx(found.seconds)
