from __future__ import annotations

from math import prod
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hlo_texts import module_of, text_of, xla_cost
from vtpu.program.memory import MemorySpace
from vtpu.program.modules import Module
from vtpu.program.trip_counts import runs
from vtpu.program.work import Part, Payload, Transfer, Work, collective_in, work_of
from vtpu.reading.hlo_text import HloTextError, read_hlo_text
from vtpu.reading.modules import read_wrapped_module

HBM, VMEM, HOST = MemorySpace.HBM, MemorySpace.VMEM, MemorySpace.HOST
TILED = "{1,0:T(8,128)}"
VECTOR = "{1,0:T(8,128)S(1)}"
ADD = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }"


def work(*lines: str, before: str = "") -> Work:
    """The work of the root of the entry computation."""
    module = module_of(*lines, before=before)
    root = module.result()
    assert root is not None
    return work_of(module, root)


def total_flops(module: Module) -> int:
    entry = module.computations[module.entry]
    return sum(work_of(module, i).flops or 0 for i in entry.instructions)


# ---- products ----------------------------------------------------------------------------------


@st.composite
def convolutions(draw: st.DrawFn) -> str:
    """A convolution of one or two spatial dimensions with any window."""
    sizes = st.integers(1, 9)
    count = draw(st.integers(0, 2))
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    batch, features, outputs = draw(sizes), draw(sizes) * groups, draw(sizes) * groups
    inputs, kernels, results, window = [], [], [], []
    for _ in range(count):
        size, kernel = draw(sizes), draw(sizes)
        stride, low, high = draw(st.integers(1, 4)), draw(st.integers(-2, 8)), draw(sizes)
        base, dilation = draw(st.integers(1, 5)), draw(st.integers(1, 3))
        spread = (size - 1) * base + 1 + low + high
        reach = (kernel - 1) * dilation + 1
        assume(spread >= reach)
        inputs.append(size)
        kernels.append(kernel)
        results.append((spread - reach) // stride + 1)
        window.append((kernel, stride, low, high, base, dilation))
    words = ""
    if window:
        words = "window={" + " ".join(
            f"{name}={'x'.join(str(w[i]) for w in window)}"
            for name, i in (("size", 0), ("stride", 1), ("lhs_dilate", 4), ("rhs_dilate", 5))
        )
        words += " pad=" + "x".join(f"{w[2]}_{w[3]}" for w in window) + "}, "
    spatial = "01"[:count]
    dims = [",".join(map(str, d)) for d in (
        (batch, features, *inputs), (features // groups, outputs, *kernels), (batch, outputs, *results),
    )]  # fmt: skip
    return text_of(
        f"a = f32[{dims[0]}] parameter(0)",
        f"b = f32[{dims[1]}] parameter(1)",
        f"ROOT c = f32[{dims[2]}] convolution(a, b), {words}"
        f"dim_labels=bf{spatial}_io{spatial}->bf{spatial}, feature_group_count={groups}",
    )


@given(convolutions())
@settings(max_examples=300, deadline=None)
def test_a_convolution_has_the_multiply_adds_that_xla_counts(text: str) -> None:
    module = read_hlo_text(text)
    (product,) = work_of(module, module.result()).products  # type: ignore[arg-type]
    assert product.flops == xla_cost(text).get("flops", 0)
    assert product.batch * product.m * product.n * product.k >= product.multiply_adds


@st.composite
def dots(draw: st.DrawFn) -> tuple[str, tuple[int, int, int, int]]:
    """A dot with batch, free and contracted dimensions in any order on either side."""
    sizes = st.lists(st.integers(1, 7), max_size=2)
    batch, left, right, inner = draw(sizes), draw(sizes), draw(sizes), draw(sizes)

    def side(free: list[int], names: str) -> tuple[str, list[int], list[int]]:
        dims = [*((s, "batch", i) for i, s in enumerate(batch)),
                *((s, "inner", i) for i, s in enumerate(inner)),
                *((s, names, i) for i, s in enumerate(free))]  # fmt: skip
        order = draw(st.permutations(dims))
        places = {(role, i): at for at, (_, role, i) in enumerate(order)}
        return (
            ",".join(str(s) for s, _, _ in order),
            [places["batch", i] for i in range(len(batch))],
            [places["inner", i] for i in range(len(inner))],
        )

    lhs, lhs_batch, lhs_inner = side(left, "left")
    rhs, rhs_batch, rhs_inner = side(right, "right")
    kept = [
        s
        for s, r in zip(lhs.split(","), range(9), strict=False)
        if s and r not in lhs_inner + lhs_batch
    ]
    other = [
        s
        for s, r in zip(rhs.split(","), range(9), strict=False)
        if s and r not in rhs_inner + rhs_batch
    ]
    result = ",".join([*map(str, batch), *kept, *other])

    def braces(numbers: list[int]) -> str:
        return "{" + ",".join(map(str, numbers)) + "}"

    words = (
        f"lhs_batch_dims={braces(lhs_batch)}, rhs_batch_dims={braces(rhs_batch)}, "
        f"lhs_contracting_dims={braces(lhs_inner)}, rhs_contracting_dims={braces(rhs_inner)}"
    )
    text = text_of(
        f"a = f32[{lhs}] parameter(0)",
        f"b = f32[{rhs}] parameter(1)",
        f"ROOT c = f32[{result}] dot(a, b), {words}",
    )
    return text, (prod(batch), prod(left), prod(right), prod(inner))


@given(dots())
@settings(max_examples=200, deadline=None)
def test_a_dot_is_its_dimensions_multiplied_as_xla_has_it(
    made: tuple[str, tuple[int, int, int, int]],
) -> None:
    text, sizes = made
    module = read_hlo_text(text)
    (product,) = work_of(module, module.result()).products  # type: ignore[arg-type]
    assert (product.batch, product.m, product.n, product.k) == sizes
    assert product.flops == xla_cost(text).get("flops", 0)


def test_dimensions_that_a_convolution_pairs_are_a_batch() -> None:
    """As the compiler for TPUs writes `bshk,bthk->bhst`: the batch and the heads are dilated."""
    found = work(
        "q = bf16[4,1024,8,128] parameter(0)",
        "k = bf16[4,1024,8,128] parameter(1)",
        "ROOT s = bf16[4,8,1024,1024] convolution(q, k), window={size=4x8 stride=3x7 "
        "lhs_dilate=4x8}, dim_labels=0b1f_0o1i->01bf",
    )
    (product,) = found.products
    assert (product.batch, product.m, product.n, product.k) == (32, 1024, 1024, 128)
    assert found.flops == 2 * 32 * 1024 * 1024 * 128


def test_dimensions_of_the_right_side_are_more_columns() -> None:
    """As the compiler for TPUs writes `bsd,dhk->bshk`: the heads are places of a padded window."""
    found = work(
        "h = bf16[4,1024,1024,1] parameter(0)",
        "w = bf16[1024,8,128,1] parameter(1)",
        "ROOT q = bf16[4,1024,8,128] convolution(h, w), window={size=1x8 pad=0_0x7_7}, "
        "dim_labels=0bf1_i1o0->0b1f",
    )
    (product,) = found.products
    assert (product.batch, product.m, product.n, product.k) == (1, 4096, 1024, 1024)


def test_a_complex_multiply_add_is_four_real_ones() -> None:
    found = work(
        "a = c64[8,16] parameter(0)",
        "b = c64[16,4] parameter(1)",
        "ROOT c = c64[8,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    assert found.flops == 8 * 8 * 16 * 4


@pytest.mark.parametrize(
    ("words", "type_", "passes"),
    [
        ("", "f32", 1),
        (", operand_precision={high,default}", "f32", 3),
        (", operand_precision={highest,highest}", "f32", 6),
        (", operand_precision={highest,highest}", "bf16", 1),
    ],
)
def test_precise_products_of_wide_numbers_take_several_passes(
    words: str, type_: str, passes: int
) -> None:
    found = work(
        f"a = {type_}[8,16] parameter(0)",
        f"b = {type_}[16,4] parameter(1)",
        f"ROOT c = f32[8,4] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{words}",
    )
    assert [p.passes for p in found.products] == [passes]


# ---- operations for each element ---------------------------------------------------------------

_UNARY = ["negate", "exponential", "tanh", "abs", "sqrt", "copy", "floor", "log"]
_BINARY = ["add", "multiply", "divide", "maximum", "power", "subtract"]


@st.composite
def chains(draw: st.DrawFn) -> list[str]:
    """A few operations for each element, reductions among them, of two arrays."""
    rows, columns = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    shape = f"f32[{rows},{columns}]"
    lines = [f"v0 = {shape} parameter(0)", f"v1 = {shape} parameter(1)"]
    last = draw(st.integers(2, 9))
    for number in range(2, last + 1):
        a, b = (f"v{draw(st.integers(0, number - 1))}" for _ in range(2))
        if draw(st.booleans()):
            lines.append(f"v{number} = {shape} {draw(st.sampled_from(_UNARY))}({a})")
        else:
            lines.append(f"v{number} = {shape} {draw(st.sampled_from(_BINARY))}({a}, {b})")
    lines.append("zero = f32[] constant(0)")
    dimension = draw(st.integers(0, 1))
    kept = (columns, rows)[dimension]
    lines.append(
        f"ROOT r = f32[{kept}] reduce(v{last}, zero), dimensions={{{dimension}}}, to_apply=add"
    )
    return lines


def counted_as_xla(text: str) -> None:
    module = read_hlo_text(text)
    works = [work_of(module, i) for i in module.computations[module.entry].instructions]
    cost = xla_cost(text)
    assert sum((w.flops or 0) + (w.vector_ops or 0) for w in works) == cost.get("flops", 0)
    assert sum(w.transcendentals or 0 for w in works) == cost.get("transcendentals", 0)


@given(chains())
@settings(max_examples=150, deadline=None)
def test_operations_for_each_element_are_those_that_xla_counts(lines: list[str]) -> None:
    counted_as_xla(text_of(*lines, before=ADD))


@given(chains())
@settings(max_examples=150, deadline=None)
def test_a_fusion_computes_what_its_parts_compute(lines: list[str]) -> None:
    apart = module_of(*lines, before=ADD)
    parts = [work_of(apart, i) for i in apart.computations[apart.entry].instructions]
    body = "\n ".join(lines)
    shape, root = lines[0].split(" ")[2], lines[-1].split(" ")[3]
    fused = work(
        f"a = {shape} parameter(0)",
        f"b = {shape} parameter(1)",
        f"ROOT f = {root} fusion(a, b), kind=kLoop, calls=fused",
        before=f"{ADD}\nfused {{ {body} }}",
    )
    assert fused.vector_ops == sum(p.vector_ops or 0 for p in parts)
    assert fused.transcendentals == sum(p.transcendentals or 0 for p in parts)


@pytest.mark.parametrize(
    "line",
    [
        "ROOT r = f32[8,120] reduce-window(a, z), window={size=1x9}, to_apply=add",
        "ROOT r = f32[8,128] reduce-window(a, z), window={size=1x255 pad=0_0x127_127}, to_apply=add",
        "ROOT r = f32[8,128] all-reduce(a), replica_groups={{0,1}}, to_apply=add",
        "ROOT r = f32[8,128] rng(z, o), distribution=rng_uniform",
        "ROOT r = f32[8,128] clamp(z, a, o)",
    ],
)
def test_further_operations_are_those_that_xla_counts(line: str) -> None:
    before = "a = f32[8,128] parameter(0)", "z = f32[] constant(0)", "o = f32[] constant(1)"
    counted_as_xla(text_of(*before, line, before=ADD))


def test_each_row_that_is_sorted_takes_n_log_n_comparisons() -> None:
    less = "less { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT l = pred[] compare(x, y), direction=LT }"
    found = work(
        "a = f32[16,1024] parameter(0)",
        "ROOT s = f32[16,1024] sort(a), dimensions={1}, to_apply=less",
        before=less,
    )
    assert found.vector_ops == 16 * 1024 * 10


# ---- bytes -------------------------------------------------------------------------------------

BIG = 1024 * 1024 * 4


def test_a_fusion_reads_its_operands_and_writes_its_results_with_padding() -> None:
    found = work(
        f"a = f32[1000,1000]{TILED} parameter(0)",
        f"b = f32[1000,1000]{VECTOR} parameter(1)",
        f"ROOT f = (f32[1000,1000]{VECTOR}, f32[1000,1000]{TILED}) fusion(a, b), kind=kLoop, calls=fused",
        before="fused { a = f32[1000,1000] parameter(0)\n b = f32[1000,1000] parameter(1)\n"
        " s = f32[1000,1000] add(a, b)\n p = f32[1000,1000] multiply(s, a)\n"
        " ROOT t = (f32[1000,1000], f32[1000,1000]) tuple(s, p) }",
    )
    padded = 1000 * 1024 * 4
    assert found.read == {HBM: padded, VMEM: padded}
    assert found.written == {HBM: padded, VMEM: padded}


def test_an_operand_of_which_a_fusion_takes_a_slice_counts_as_the_slice() -> None:
    """Through a fusion in the fusion and a bitcast, as the compiler reads one layer of stacked weights."""
    found = work(
        "w = f32[12,1024,1024]{2,1,0:T(8,128)} parameter(0)",
        f"x = f32[1024,1024]{TILED} parameter(1)",
        "i = s32[] parameter(2)",
        f"ROOT f = f32[1024,1024]{TILED} fusion(w, x, i), kind=kLoop, calls=fused",
        before="layer { w = f32[12,1024,1024]{2,1,0:T(8,128)} parameter(0)\n i = s32[] parameter(1)\n"
        " z = s32[] constant(0)\n b = f32[12,1024,1024]{2,1,0:T(8,128)} bitcast(w)\n"
        " ROOT d = f32[1,1024,1024]{2,1,0:T(8,128)} dynamic-slice(b, i, z, z), dynamic_slice_sizes={1,1024,1024} }\n"
        "fused { w = f32[12,1024,1024]{2,1,0:T(8,128)} parameter(0)\n"
        f" x = f32[1024,1024]{TILED} parameter(1)\n i = s32[] parameter(2)\n"
        " d = f32[1,1024,1024]{2,1,0:T(8,128)} fusion(w, i), kind=kLoop, calls=layer\n"
        f" l = f32[1024,1024]{TILED} bitcast(d)\n ROOT s = f32[1024,1024]{TILED} add(x, l) }}",
    )
    assert found.read == {HBM: 2 * BIG}
    assert found.written == {HBM: BIG}


def test_an_update_in_place_counts_only_what_it_updates() -> None:
    stacked = "f32[12,1024,1024]{2,1,0:T(8,128)}"
    found = work(
        f"w = {stacked} parameter(0)",
        f"x = f32[1024,1024]{TILED} parameter(1)",
        "i = s32[] parameter(2)",
        f"ROOT f = {stacked} fusion(w, x, i), kind=kLoop, calls=fused",
        before=f"fused {{ w = {stacked} parameter(0)\n x = f32[1024,1024]{TILED} parameter(1)\n"
        " i = s32[] parameter(2)\n z = s32[] constant(0)\n"
        " u = f32[1,1024,1024]{2,1,0:T(8,128)} bitcast(x)\n"
        f" ROOT d = {stacked} dynamic-update-slice(w, u, i, z, z) }}",
    )
    assert found.read == {HBM: BIG}
    assert found.written == {HBM: BIG}


def test_an_update_of_what_the_fusion_itself_makes_writes_all() -> None:
    found = work(
        f"w = f32[1024,1024]{TILED} parameter(0)",
        f"x = f32[8,1024]{TILED} parameter(1)",
        "i = s32[] parameter(2)",
        f"ROOT f = f32[1024,1024]{TILED} fusion(w, x, i), kind=kLoop, calls=fused",
        before=f"fused {{ w = f32[1024,1024]{TILED} parameter(0)\n x = f32[8,1024]{TILED} parameter(1)\n"
        f" i = s32[] parameter(2)\n z = s32[] constant(0)\n n = f32[1024,1024]{TILED} negate(w)\n"
        f" ROOT d = f32[1024,1024]{TILED} dynamic-update-slice(n, x, i, z) }}",
    )
    assert found.read == {HBM: BIG + 8 * 1024 * 4}
    assert found.written == {HBM: BIG}


def test_a_gather_reads_the_rows_that_it_takes() -> None:
    found = work(
        f"t = f32[32768,1024]{TILED} parameter(0)",
        "i = s32[64,1]{1,0} parameter(1)",
        f"ROOT g = f32[64,1024]{TILED} gather(t, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,1024}",
    )
    assert found.read == {HBM: 64 * 1024 * 4 + 64 * 4}
    assert found.written == {HBM: 64 * 1024 * 4}


def test_a_scatter_reads_and_writes_the_rows_that_it_changes() -> None:
    found = work(
        f"t = f32[32768,1024]{TILED} parameter(0)",
        "i = s32[64,1]{1,0} parameter(1)",
        f"u = f32[64,1024]{TILED} parameter(2)",
        f"ROOT s = f32[32768,1024]{TILED} scatter(t, i, u), update_window_dims={{1}}, "
        "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        before=ADD,
    )
    assert found.read == {HBM: 2 * 64 * 1024 * 4 + 64 * 4}
    assert found.written == {HBM: 64 * 1024 * 4}
    assert found.vector_ops == 64 * 1024


def test_a_broadcast_scalar_is_not_read() -> None:
    found = work(
        "s = f32[] parameter(0)", f"ROOT b = f32[1024,1024]{TILED} broadcast(s), dimensions={{}}"
    )
    assert found.read == {}
    assert found.written == {HBM: BIG}


# ---- what goes on beside the core --------------------------------------------------------------


def test_an_asynchronous_copy_is_a_transfer_between_memories() -> None:
    module = module_of(
        f"a = f32[1024,1024]{TILED} parameter(0)",
        f"s = (f32[1024,1024]{VECTOR}, f32[1024,1024]{TILED}, u32[]) copy-start(a)",
        f"ROOT d = f32[1024,1024]{VECTOR} copy-done(s)",
    )
    start, done = module.computations[module.entry].instructions[1:]
    found = work_of(module, start)
    assert found.transfers == (Transfer(HBM, VMEM, BIG),)
    assert (found.read, found.written) == ({HBM: BIG}, {VMEM: BIG})
    assert work_of(module, done) == Work()


def test_an_asynchronous_slice_moves_the_slice_alone() -> None:
    module = module_of(
        f"a = f32[1024,1024]{TILED} parameter(0)",
        f"s = ((f32[1024,1024]{TILED}), f32[8,1024]{VECTOR}, s32[]) slice-start(a), slice={{[0:8], [0:1024]}}",
        f"ROOT d = f32[8,1024]{VECTOR} slice-done(s)",
    )
    start = module.computations[module.entry].instructions[1]
    assert start.opcode == "async-start"
    assert work_of(module, start).transfers == (Transfer(HBM, VMEM, 8 * 1024 * 4),)


def test_a_copy_to_the_host_is_a_transfer_too() -> None:
    module = module_of(
        f"a = f32[1024,1024]{TILED} parameter(0)",
        f"s = (f32[1024,1024]{{1,0:T(8,128)S(5)}}, f32[1024,1024]{TILED}, u32[]) copy-start(a)",
        "ROOT d = f32[1024,1024]{1,0:T(8,128)S(5)} copy-done(s)",
    )
    start = module.computations[module.entry].instructions[1]
    assert work_of(module, start).transfers == (Transfer(HBM, HOST, BIG),)


def test_what_is_sent_to_the_host_goes_over_its_link() -> None:
    module = module_of(
        f"a = f32[1024,1024]{TILED} parameter(0)",
        "t = token[] after-all()",
        f"s = (f32[1024,1024]{TILED}, u32[], token[]) send(a, t), channel_id=1, is_host_transfer=true",
        "ROOT d = token[] send-done(s), channel_id=1, is_host_transfer=true",
    )
    send = module.computations[module.entry].instructions[2]
    assert work_of(module, send).transfers == (Transfer(HBM, HOST, BIG),)


@pytest.mark.parametrize(
    ("line", "payload"),
    [
        (f"ROOT c = f32[4096,1024]{TILED} all-gather(a), dimensions={{0}}, replica_groups={{{{0,1,2,3}}}}", (BIG, 4 * BIG)),
        (f"ROOT c = f32[256,1024]{TILED} reduce-scatter(a), dimensions={{0}}, replica_groups={{{{0,1,2,3}}}}, to_apply=add", (BIG, BIG // 4)),
        (f"ROOT c = (f32[1024,1024]{TILED}, f32[4096,1024]{TILED}) all-gather-start(a), dimensions={{0}}, replica_groups={{{{0,1,2,3}}}}", (BIG, 4 * BIG)),
        (f"ROOT c = f32[1024,1024]{TILED} all-reduce-start(a), replica_groups={{{{0,1,2,3}}}}, to_apply=add", (BIG, BIG)),
        (f"ROOT c = (f32[1024,1024]{TILED}, f32[1024,1024]{TILED}, u32[], u32[]) collective-permute-start(a), source_target_pairs={{{{0,1}}}}", (BIG, BIG)),
    ],
)  # fmt: skip
def test_a_collective_takes_in_its_operand_and_gives_its_result(
    line: str, payload: tuple[int, int]
) -> None:
    found = work(f"a = f32[1024,1024]{TILED} parameter(0)", line, before=ADD)
    assert found.payload == Payload(*payload)
    assert (found.read, found.written) == ({HBM: payload[0]}, {HBM: payload[1]})


def test_a_sum_that_is_cut_at_once_is_a_reduce_scatter() -> None:
    module = module_of(
        f"a = f32[1024,1024]{TILED} parameter(0)",
        f"ROOT f = f32[256,1024]{TILED} fusion(a), kind=kCustom, calls=fused",
        before=f"{ADD}\nfused {{ a = f32[1024,1024]{TILED} parameter(0)\n"
        f" s = f32[1024,1024]{TILED} all-reduce(a), replica_groups={{{{0,1,2,3}}}}, to_apply=add\n"
        " i = u32[] partition-id()\n z = u32[] constant(0)\n"
        f" ROOT d = f32[256,1024]{TILED} dynamic-slice(s, i, z), dynamic_slice_sizes={{256,1024}} }}",
    )
    fusion = module.result()
    assert fusion is not None
    found = collective_in(module, fusion)
    assert found is not None
    assert (found.kind, found.part) == ("reduce-scatter", Part.WHOLE)
    assert work_of(module, fusion).payload == Payload(BIG, BIG // 4)
    assert work_of(module, fusion).read == {HBM: BIG}


_STEPS = '{"async_collective_fusion_config":{"flag_start":"2","flag_end":"8"}}'
_GATHER = (
    f"g = f32[4096,1024]{TILED} all-gather(a), dimensions={{0}}, replica_groups={{{{0,1,2,3}}}}, "
    f"backend_config={_STEPS}"
)
_PAIR = f"(f32[1024,1024]{TILED}, f32[4096,1024]{TILED})"


def test_a_collective_that_fusions_move_on_is_counted_at_its_start() -> None:
    """The fusion in between reads and writes only what it computes itself."""
    before = f"""
    start {{ a = f32[1024,1024]{TILED} parameter(0)
      {_GATHER}
      ROOT s = {_PAIR} custom-call(g), custom_call_target="AsyncCollectiveStart" }}
    between {{ a = f32[1024,1024]{TILED} parameter(0)
      b = f32[4096,1024]{TILED} parameter(1)
      x = f32[8,1024]{TILED} parameter(2)
      {_GATHER}
      y = f32[8,1024]{TILED} negate(x)
      ROOT t = (f32[8,1024]{TILED}, f32[1024,1024]{TILED}, f32[4096,1024]{TILED}) tuple(y, a, g) }}
    done {{ a = f32[1024,1024]{TILED} parameter(0)
      b = f32[4096,1024]{TILED} parameter(1)
      {_GATHER}
      ROOT d = f32[4096,1024]{TILED} custom-call(a, b, g), custom_call_target="AsyncCollectiveDone" }}"""
    module = module_of(
        f"a = f32[1024,1024]{TILED} parameter(0)",
        f"x = f32[8,1024]{TILED} parameter(1)",
        f"s = {_PAIR} fusion(a), kind=kCustom, calls=start",
        f"s.0 = f32[1024,1024]{TILED} get-tuple-element(s), index=0",
        f"s.1 = f32[4096,1024]{TILED} get-tuple-element(s), index=1",
        f"c = (f32[8,1024]{TILED}, f32[1024,1024]{TILED}, f32[4096,1024]{TILED}) fusion(s.0, s.1, x), kind=kLoop, calls=between",
        f"c.1 = f32[1024,1024]{TILED} get-tuple-element(c), index=1",
        f"c.2 = f32[4096,1024]{TILED} get-tuple-element(c), index=2",
        f"ROOT d = f32[4096,1024]{TILED} fusion(c.1, c.2), kind=kCustom, calls=done",
        before=before,
    )
    fusions = [i for i in module.computations[module.entry].instructions if i.opcode == "fusion"]
    parts = [collective_in(module, f) for f in fusions]
    assert [p and p.part for p in parts] == [Part.START, Part.CONTINUED, Part.DONE]
    start, between, done = (work_of(module, f) for f in fusions)
    assert start.payload == Payload(BIG, 4 * BIG)
    assert (start.read, start.written) == ({HBM: BIG}, {HBM: 4 * BIG})
    assert (between.read, between.written) == ({HBM: 8 * 4096}, {HBM: 8 * 4096})
    assert between.vector_ops == 8 * 1024
    assert done == Work()


# ---- kernels -----------------------------------------------------------------------------------

_KERNEL = f'ROOT k = f32[1024,1024]{TILED} custom-call(a), custom_call_target="tpu_custom_call", backend_config='


def test_a_kernel_does_what_its_author_says() -> None:
    config = (
        '{"custom_call_config": {"body": "", "cost_estimate": '
        '{"flops": 1000, "transcendentals": "20", "bytes_accessed": 300}}}'
    )
    found = work(f"a = f32[1024,1024]{TILED} parameter(0)", _KERNEL + config)
    assert (found.flops, found.transcendentals) == (1000, 20)
    assert (found.read, found.written) == ({HBM: BIG}, {HBM: BIG})


@pytest.mark.parametrize(
    "config", ['{"custom_call_config": {"body": ""}}', '"cut {custom_call_config"']
)
def test_a_kernel_of_which_nothing_is_known_is_unknown_and_not_nothing(config: str) -> None:
    found = work(f"a = f32[1024,1024]{TILED} parameter(0)", _KERNEL + config)
    assert found.is_unknown
    assert found.vector_ops is None
    assert found.read == {HBM: BIG}


def test_names_for_memory_are_no_work() -> None:
    line = f'ROOT k = f32[1024,1024]{TILED} custom-call(), custom_call_target="AllocateBuffer"'
    assert work(line) == Work()


# ---- whole programs ----------------------------------------------------------------------------


def test_a_scanned_training_step_has_the_flops_of_its_products() -> None:
    """8 layers of 1000 x 1000 and an output of 1000 x 32000 for 1024 rows: forward and two backward."""
    dump = Path(__file__).parents[1] / "analysis" / "dumps" / "scan_v5e.hlo.pb"
    module = read_wrapped_module(dump.read_bytes())
    found = sum(
        (times or 0) * (work_of(module, instruction).flops or 0)
        for number, times in runs(module).items()
        for instruction in module.computations[number].instructions
    )
    assert found == 3 * 2 * 1024 * (8 * 1000 * 1000 + 1000 * 32000)


def test_what_is_no_module_is_said() -> None:
    with pytest.raises(HloTextError):
        module_of("ROOT a = f32[2] nonsense()")
