"""Why functions were compiled again, and which sizes would do for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordings import execute, program, recording
from vtpu.analysis.run.buckets import choose_buckets
from vtpu.analysis.run.programs import summarize_programs
from vtpu.analysis.run.recompiles import Cause, Difference, Recompile, recompiles_of
from vtpu.analysis.run.shape_patterns import Pattern, Shapes, shapes_of
from vtpu.analysis.source_lines import LineFinder
from vtpu.recording.recording import FIRST_CALL, Recording

STATIC = "different input pytree:\n* at input path [0][1], now <class 'jax._src.tree_util.Static'> with pytree metadata Static(val=2) and before <class 'jax._src.tree_util.Static'> with pytree metadata Static(val=1), so the pytree node metadata does not match"
FIELD = "different input pytree:\n* at input path [0][1], now <class '__main__.Request'> with pytree metadata (True,) and before <class '__main__.Request'> with pytree metadata (False,), so the pytree node metadata does not match"
MASK = "different input pytree:\n* at input path [0][2], now pytree leaf and before <class 'NoneType'>, so their Python types differ"
SHAPE = "different input types:\n* at batch, now f32[5,8] and before f32[8,8]"
SHARDED = "different input types:\n* at batch, now f32[5@data,8] and before f32[8@data,8]"
TYPE = "different input types:\n* at x, now bf16[4,8] and before f32[4,8]"
WEAK = "different input types:\n* at lr, now f32[]{weak_type=True} and before f32[]{weak_type=False}https://docs.jax.dev/en/latest/101/type_promotion.html#weak-types"
ELSEWHERE = (
    "different input types:\n* at w, now f32[128]({Auto: ('data',)}) and before f32[128]({})"
)
X64 = "Tracing context doesn't match, e.g. due to config or context manager.\n* jax_enable_x64 differs: now True and before False"
PRECISION = "Tracing context doesn't match, e.g. due to config or context manager.\n* jax_default_matmul_precision differs: now highest and before None"
AGAIN = "another function defined on the same line: the function is defined again each time"
OWN = "different static arguments:\n* at input path [1]['mode'], now 'ab' and before 'a'"


def compiled_again(reason: str | None, **fields) -> Recompile:
    first = program(1, reason=FIRST_CALL, stack=1)
    second = program(2, reason=reason, **{"stack": 1, **fields})
    recorded = recording(programs=(first, second))
    (function,) = summarize_programs(recorded, LineFinder(recorded))
    (found,) = recompiles_of(function, recorded)
    return found


@pytest.mark.parametrize(
    ("reason", "cause", "difference"),
    [
        (STATIC, Cause.STATIC, Difference("[0][1]", "2", "1")),
        (FIELD, Cause.STATIC, Difference("[0][1]", "(True,)", "(False,)")),
        (OWN, Cause.STATIC, Difference("[1]['mode']", "'ab'", "'a'")),
        (MASK, Cause.STRUCTURE, Difference("[0][2]", "an array", "None")),
        (SHAPE, Cause.SHAPE, Difference("batch", "f32[5,8]", "f32[8,8]")),
        (SHARDED, Cause.SHAPE, Difference("batch", "f32[5@data,8]", "f32[8@data,8]")),
        (TYPE, Cause.TYPE, Difference("x", "bf16[4,8]", "f32[4,8]")),
        (WEAK, Cause.WEAK_TYPE, Difference("lr", "f32[]{weak_type=True}", "f32[]{weak_type=False}")),
        (ELSEWHERE, Cause.SHARDING, Difference("w", "f32[128]({Auto: ('data',)})", "f32[128]({})")),
        (X64, Cause.X64, Difference("jax_enable_x64", "True", "False")),
        (PRECISION, Cause.CONTEXT, Difference("jax_default_matmul_precision", "highest", "None")),
    ],
)  # fmt: skip
def test_jax_says_the_cause(reason: str, cause: Cause, difference: Difference) -> None:
    found = compiled_again(reason)
    assert (found.cause, found.differences) == (cause, (difference,))


def test_a_function_that_is_made_again_is_a_new_one() -> None:
    assert compiled_again(AGAIN).cause is Cause.NEW_FUNCTION


def test_the_same_program_at_the_same_place_is_a_new_function_too() -> None:
    assert compiled_again(None, key="key1").cause is Cause.NEW_FUNCTION
    assert compiled_again(None, key="key1", stack=2).cause is Cause.UNKNOWN


def test_without_jax_the_shapes_are_compared() -> None:
    assert compiled_again(None, output_shapes=("f32[3]{0}",)).cause is Cause.SHAPE
    assert compiled_again(None).cause is Cause.UNKNOWN


# ---- patterns of shapes ------------------------------------------------------------------------


def encoded(*lengths: int, calls: int = 1) -> Recording:
    """A function that is called with tokens of some lengths, each length compiled once."""
    reason = "different input types:\n* at tokens, now s32[1] and before s32[2]"
    programs = tuple(
        program(
            n,
            reason=reason if n > 1 else FIRST_CALL,
            stack=1,
            parameter_shapes=("f32[1000,64]{1,0}", f"s32[{length}]{{0}}", f"s32[{length + 1}]{{0}}"),
        )
        for n, length in enumerate(lengths, 1)
    )  # fmt: skip
    rows = [execute(n) for n in range(1, len(lengths) + 1) for _ in range(calls)]
    return recording(*rows, programs=programs)


def pattern_of(recorded: Recording) -> Shapes:
    (function,) = summarize_programs(recorded, LineFinder(recorded))
    return shapes_of(function, recompiles_of(function, recorded), recorded)


def test_a_size_that_changes_freely() -> None:
    found = pattern_of(encoded(97, 310, 145, 388))
    assert found.pattern is Pattern.CHANGING
    assert found.varying
    assert found.varying.places == ((1, 0), (2, 0))
    assert found.varying.sizes == (97, 310, 145, 388)


def test_a_size_that_grows_with_every_call() -> None:
    assert pattern_of(encoded(64, 65, 66, 67)).pattern is Pattern.GROWING
    assert pattern_of(encoded(64, 65, 66, 67, calls=2)).pattern is Pattern.CHANGING


def test_sizes_that_the_program_rounds_are_buckets() -> None:
    assert pattern_of(encoded(64, 512, 128, 256)).pattern is Pattern.BUCKETS
    assert pattern_of(encoded(384, 128, 640, 896)).pattern is Pattern.BUCKETS


def test_two_sizes_are_no_pattern() -> None:
    assert pattern_of(encoded(97, 310)).pattern is Pattern.OTHER


def test_a_smaller_batch_that_comes_rarely_is_the_last_one() -> None:
    recorded = encoded(128, 104)
    rows = [execute(1)] * 7 + [execute(2)]
    assert pattern_of(recording(*rows, programs=recorded.programs)).pattern is Pattern.LAST_BATCH
    rows = [execute(1), execute(2)]
    assert pattern_of(recording(*rows, programs=recorded.programs)).pattern is Pattern.OTHER


# ---- buckets -----------------------------------------------------------------------------------


def test_close_sizes_go_to_one_bucket() -> None:
    assert choose_buckets(dict.fromkeys(range(64, 70), 1)).sizes == (72,)


def test_buckets_are_where_the_calls_are() -> None:
    assert choose_buckets({100: 1000, 101: 1, 1000: 1}).sizes == (104, 1024)


@given(st.dictionaries(st.integers(1, 3000), st.integers(1, 50), min_size=1, max_size=40))
def test_every_size_has_a_bucket_and_no_better_single_one(calls: dict[int, int]) -> None:
    found = choose_buckets(calls)
    assert 1 <= len(found.sizes) <= 4
    assert list(found.sizes) == sorted(set(found.sizes))
    assert found.sizes[-1] >= max(calls)
    padded = sum(n * min(b for b in found.sizes if b >= size) for size, n in calls.items())
    whole = sum(size * n for size, n in calls.items())
    assert found.padding == pytest.approx(padded / whole - 1)
    largest = max(calls)
    unit = 128 if largest > 256 else 8 if largest > 8 else 1
    assert padded <= -(-largest // unit) * unit * sum(calls.values())
