"""A program's schedule in time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_texts import module_of
from vtpu.analysis.time.programs import machine_of_slice
from vtpu.chips import parse_slice
from vtpu.clock.calibrations import calibration_of
from vtpu.clock.machine import Machine
from vtpu.clock.program import program_time
from vtpu.clock.program_time import Lane, ProgramTime
from vtpu.clock.resources import Resource
from vtpu.program.modules import Module

PRODUCT = "f32[4096,4096]{1,0:T(8,128)}"
LINE = "bf16[8192,8192]{1,0:T(8,128)(2,1)}"
_DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def _machine(name: str = "v5e:2x2") -> Machine:
    return machine_of_slice(parse_slice(name))


def _time(module: Module, name: str = "v5e:2x2") -> ProgramTime:
    devices = tuple(range(parse_slice(name).num_devices))
    return program_time(replace(module, devices=devices), _machine(name))


def _products(count: int) -> Module:
    lines = [f"a = {LINE} parameter(0)", f"b = {LINE} parameter(1)"]
    for i in range(count):
        before = f"p{i - 1}" if i else "a"
        lines.append(f"p{i} = {LINE} dot({before}, b), {_DOT}")
    lines[-1] = f"ROOT {lines[-1]}"
    return module_of(*lines)


@given(st.integers(1, 5))
def test_operations_of_the_core_take_the_sum_of_their_times(count: int) -> None:
    one, all_ = _time(_products(1)), _time(_products(count))
    assert all_.total.seconds == pytest.approx(count * one.total.seconds)
    assert all_.flops == count * 2 * 8192**3


def test_a_product_takes_what_the_matrix_units_need() -> None:
    found = _time(_products(1))
    at_peak = 2 * 8192**3 / 197e12
    assert at_peak < found.total.seconds < 1.2 * at_peak
    (product,) = [o for o in found.operations.values() if o.flops]
    assert product.bound is Resource.MXU


LOOP = """
body {
  b = (s32[], bf16[8192,8192]{1,0:T(8,128)(2,1)}) parameter(0)
  i = s32[] get-tuple-element(b), index=0
  x = bf16[8192,8192]{1,0:T(8,128)(2,1)} get-tuple-element(b), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = bf16[8192,8192]{1,0:T(8,128)(2,1)} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], bf16[8192,8192]{1,0:T(8,128)(2,1)}) tuple(j, y)
}

cond {
  c = (s32[], bf16[8192,8192]{1,0:T(8,128)(2,1)}) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  n = s32[] constant(12)
  ROOT lt = pred[] compare(k, n), direction=LT
}
"""


def test_a_loop_takes_its_passes() -> None:
    module = module_of(
        f"a = {LINE} parameter(0)",
        "zero = s32[] constant(0)",
        f"t0 = (s32[], {LINE}) tuple(zero, a)",
        f"w = (s32[], {LINE}) while(t0), condition=cond, body=body",
        f"ROOT r = {LINE} get-tuple-element(w), index=1",
        before=LOOP,
    )
    assert _time(module).total.seconds == pytest.approx(
        12 * _time(_products(1)).total.seconds, rel=0.05
    )
    assert _time(module).flops == 12 * 2 * 8192**3


def _gather_beside(products: int) -> Module:
    whole = "bf16[32768,8192]{1,0:T(8,128)(2,1)}"
    lines = [
        f"a = {LINE} parameter(0)",
        f"b = {LINE} parameter(1)",
        f"start = ({LINE}, {whole}) all-gather-start(a), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}",
    ]
    lines += [f"p{i} = {LINE} dot({f'p{i - 1}' if i else 'a'}, b), {_DOT}" for i in range(products)]
    lines.append(f"ROOT done = {whole} all-gather-done(start)")
    return module_of(*lines)


def test_a_collective_that_the_core_covers_costs_nothing() -> None:
    covered = _time(_gather_beside(products=2))
    assert covered.total.seconds == pytest.approx(_time(_products(2)).total.seconds)
    assert not covered.exposed


def test_a_collective_that_nothing_covers_is_waited_for() -> None:
    alone = _time(_gather_beside(products=0))
    # three of four parts come over the corner's two links, at what calibration says is reached of them
    link = parse_slice("v5e:2x2").generation.links.ici_one_way_bytes_per_s_per_link
    assert link is not None
    rate = 2 * link.value * calibration_of("v5e").ici
    assert alone.total.seconds == pytest.approx(3 * 8192 * 8192 * 2 / rate, rel=0.01)
    assert alone.exposed[Resource.ICI] == pytest.approx(alone.total.seconds)
    assert alone.core_busy == pytest.approx(0)


@given(st.integers(0, 4))
def test_core_and_waits_make_the_whole(products: int) -> None:
    found = _time(_gather_beside(products))
    whole = found.core_busy + sum(found.exposed.values())
    assert whole == pytest.approx(found.total.seconds)


@given(st.integers(0, 4))
def test_no_lane_does_two_things_at_once(products: int) -> None:
    found = _time(_gather_beside(products))
    for lane in Lane:
        spans = sorted(
            (s.start, s.end) for p in found.passes.values() for s in p.spans if s.lane is lane
        )
        assert all(a[1] <= b[0] + 1e-12 for a, b in pairwise(spans))


def test_a_collective_among_devices_that_are_not_the_programs_is_without_a_model() -> None:
    module = replace(_gather_beside(0), devices=(0, 1))
    found = program_time(module, _machine())
    (missing,) = found.without_model
    assert module.by_id[missing].opcode == "all-gather-start"
    assert found.unmodelled_bytes > 0


def test_a_kernel_of_which_nothing_is_known_is_without_a_model() -> None:
    module = module_of(
        f"a = {LINE} parameter(0)",
        f'ROOT k = {LINE} custom-call(a), custom_call_target="tpu_custom_call"',
    )
    found = _time(module)
    assert len(found.without_model) == 1
    assert found.total.seconds == 0


def test_a_copy_to_the_host_takes_the_host_link() -> None:
    on_host = LINE.replace("(2,1)}", "(2,1)S(5)}")
    module = module_of(
        f"a = {LINE} parameter(0)",
        f"start = ({on_host}, {LINE}, u32[]) copy-start(a)",
        f"ROOT done = {on_host} copy-done(start)",
    )
    found = _time(module)
    rate = 15e9 * calibration_of("v5e").host_link
    assert found.exposed[Resource.HOST_LINK] == pytest.approx(8192 * 8192 * 2 / rate, rel=0.01)


def test_where_nobody_published_the_host_link_a_copy_to_it_is_without_a_model() -> None:
    on_host = LINE.replace("(2,1)}", "(2,1)S(5)}")
    module = module_of(
        f"a = {LINE} parameter(0)",
        f"start = ({on_host}, {LINE}, u32[]) copy-start(a)",
        f"ROOT done = {on_host} copy-done(start)",
    )
    assert len(_time(module, "v5p:2x2x1").without_model) == 1


def test_a_program_between_slices_waits_for_the_network() -> None:
    size = "bf16[8192,8192]{1,0:T(8,128)(2,1)}"
    to = (
        'frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",'
        '_xla_megascale_target="{1,2}x{0:3}",_xla_megascale_transfer_type="ALL_REDUCE"}'
    )
    module = module_of(
        f"a = {size} parameter(0)",
        "ready = token[] after-all()",
        f"send = ({size}, u32[], token[]) send(a, ready), channel_id=2, is_host_transfer=true, {to}",
        f"recv = ({size}, u32[], token[]) recv(ready), channel_id=1, is_host_transfer=true, {to}",
        "sent = token[] send-done(send), channel_id=2, is_host_transfer=true",
        f"got = ({size}, token[]) recv-done(recv), channel_id=1, is_host_transfer=true",
        f"ROOT r = {size} get-tuple-element(got), index=0",
    )
    found = _time(module, "2*v5e:2x2")
    assert found.total.seconds == pytest.approx(8192 * 8192 * 2 / 3.125e9, rel=0.01)
    assert found.exposed[Resource.DCN] > 0


def test_a_sort_is_without_a_model_and_the_time_a_lower_bound() -> None:
    compare = """
order {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT lt = pred[] compare(p, q), direction=LT
}
"""
    module = module_of(
        "a = f32[65536]{0:T(1024)} parameter(0)",
        "ROOT s = f32[65536]{0:T(1024)} sort(a), dimensions={0}, to_apply=order",
        before=compare,
    )
    found = _time(module)
    assert len(found.without_model) == 1
    assert found.is_lower_bound


def test_a_loop_of_which_nothing_tells_how_often_it_runs_makes_a_lower_bound() -> None:
    module = module_of(
        f"a = {LINE} parameter(0)",
        "n = s32[] parameter(1)",
        f"t0 = (s32[], {LINE}) tuple(n, a)",
        f"w = (s32[], {LINE}) while(t0), condition=cond, body=body",
        f"ROOT r = {LINE} get-tuple-element(w), index=1",
        before=LOOP,
    )
    found = _time(module)
    assert len(found.uncounted_loops) == 1
    assert found.is_lower_bound


def test_products_of_small_integers_are_measured_by_their_own_peak() -> None:
    line = "s8[8192,8192]{1,0:T(8,128)(4,1)}"
    module = module_of(
        f"a = {line} parameter(0)",
        f"b = {line} parameter(1)",
        f"ROOT p = s32[8192,8192]{{1,0:T(8,128)}} dot(a, b), {_DOT}",
    )
    found = _time(module)
    assert found.flops / found.peak_flops_per_s <= found.total.seconds


def test_a_gather_of_scalars_reads_what_it_takes() -> None:
    module = module_of(
        "a = f32[1048576]{0:T(1024)} parameter(0)",
        "i = s32[1048576,1]{0,1:T(1,128)} parameter(1)",
        "ROOT g = f32[1048576]{0:T(1024)} gather(a, i), offset_dims={}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
    )
    assert _time(module).total.seconds > 8 * 1048576 / 819e9


def test_where_nobody_published_the_links_a_collective_is_without_a_model() -> None:
    module = replace(_gather_beside(0), devices=(0, 2, 4, 6))
    found = program_time(module, _machine("v2:2x2"))
    assert len(found.without_model) == 1


def test_a_computation_that_runs_beside_the_core_is_without_a_model() -> None:
    wrapped = f"""
inside {{
  p = {LINE} parameter(0)
  ROOT e = {LINE} exponential(p)
}}
"""
    module = module_of(
        f"a = {LINE} parameter(0)",
        f"start = (({LINE}), {LINE}, u32[]) async-start(a), calls=inside, "
        'async_execution_thread="sparsecore"',
        f"ROOT done = {LINE} async-done(start), calls=inside",
        before=wrapped,
    )
    found = _time(module)
    assert [module.by_id[i].opcode for i in found.without_model] == ["async-start"]
    assert found.is_lower_bound
