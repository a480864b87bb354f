"""What happens when a program looks at its arrays, or does not."""

from __future__ import annotations

import pytest

from running import Bench, Run, source_of
from vtpu.device import _core
from vtpu.values.reasons import OF_THE_CORE

STEP = """
import jax, jax.numpy as jnp, numpy as np

def loss(w, x):
    return jnp.mean(jnp.square(jnp.tanh(x @ w)))

@jax.jit
def step(number, w, x):
    value, grad = jax.value_and_grad(loss)(w, x)
    return number + 1, w - 0.1 * grad, value

number, w, x = jnp.int32(0), jnp.ones((64, 64)), jnp.ones((64, 64))
for _ in range(5):
    number, w, value = step(number, w, x)
"""


def whys(run: Run) -> list[tuple[str, str, int, str]]:
    """Each line that saw made-up values: its beginning, how, how often, why."""
    return [
        (source_of(v.line).strip().partition("(")[0], v.how, v.count, v.why)
        for v in run.summary.fabricated_values
    ]


def test_nothing_is_computed_until_the_program_looks(bench: Bench) -> None:
    run = bench.run(STEP)
    run.succeeded()
    assert (run.summary.values.mode, run.summary.values.reads) == ("auto", 0)
    assert run.summary.values.computed_reads == run.summary.values.repeated_executions == 0


def test_a_step_counter_costs_additions_and_its_loss_is_refused_by_a_small_budget(
    bench: Bench,
) -> None:
    program = STEP + "print(int(number))\nprint(float(value))\n"
    run = bench.run(program, VTPU_VALUES_BUDGET="1kFLOP")
    run.succeeded("5\n0.0\n")
    why = "computing it needs more than the budget of 1,000 FLOP (jit_step)"
    assert whys(run) == [("print", "read", 1, why)]
    assert (run.summary.values.repeated_executions or 0) <= 6  # five additions and the first 0


def test_a_value_is_computed_once(bench: Bench) -> None:
    once = bench.run(STEP + "print(float(value) > 0)\n")
    twice = bench.run(STEP + "print(float(value) == float(value + 0) > 0)\n")
    for run in (once, twice):
        run.succeeded("True\n")
    assert once.summary.values.repeated_executions is not None
    repeated = once.summary.values.repeated_executions + 1  # the addition
    assert twice.summary.values.repeated_executions == repeated


def test_unknown_values_are_what_the_user_wants(bench: Bench) -> None:
    program = STEP + "print(float(value), int(number))\n"
    budget = {"VTPU_VALUES_BUDGET": "0FLOP"}
    bench.run(program, VTPU_UNKNOWN="nan", **budget).succeeded("nan 0\n")
    refused = bench.run(program, VTPU_UNKNOWN="error", **budget)
    assert refused.exit_code == 1
    last = refused.stderr.strip().splitlines()[-1]
    assert (
        "vtpu: this value is not known: computing it needs more than the budget of 0 FLOP" in last
    )
    assert whys(refused) == [
        ("print", "read", 1, "computing it needs more than the budget of 0 FLOP (jit_step)")
    ]


def test_what_was_donated_or_deleted_is_remembered_while_a_result_needs_it(bench: Bench) -> None:
    run = bench.run("""
import jax, jax.numpy as jnp, numpy as np
double = jax.jit(lambda x: x * 2, donate_argnums=0)
host = np.arange(4.0, dtype=np.float32)
x = jax.device_put(host)
host[:] = -1  # the transfer is over
kept = jax.jit(lambda x: x + 1)(x)
y = double(double(x))
assert x.is_deleted()
kept_too = kept + 0
kept.delete()
print(np.asarray(y), np.asarray(kept_too))
""")
    run.succeeded("[ 0.  4.  8. 12.] [1. 2. 3. 4.]\n")


def test_a_chain_of_many_executions_is_followed_to_its_beginning(bench: Bench) -> None:
    run = bench.run("""
import jax
f = jax.jit(lambda x: x + 1)
x = f(0)
for _ in range(30_000):
    x = f(x)
print(int(x))
y = f(x)
for _ in range(30_000):
    y = f(y)
del x, y  # let go without having been looked at
""")
    run.succeeded("30001\n")


def test_values_are_read_from_many_threads(bench: Bench) -> None:
    run = bench.run("""
import threading
import jax, jax.numpy as jnp
f = jax.jit(lambda x, i: jnp.sum(x) * i)
x, seen = jnp.arange(100.0), [None] * 8
def look(i):
    for n in range(20):
        seen[i] = float(f(x + n, i))
threads = [threading.Thread(target=look, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(seen == [float(i * (4950 + 100 * 19)) for i in range(8)])
""")
    run.succeeded("True\n")


def test_programs_from_jaxs_own_cache_have_values(bench: Bench) -> None:
    program = """
import jax, jax.numpy as jnp
jax.config.update("jax_compilation_cache_dir", "cache")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
print(float(jax.jit(lambda x: jnp.sin(x).sum())(jnp.arange(3.0))))
"""
    first, second = bench.run(program), bench.run(program)
    assert first.printed == second.printed != "0.0\n"
    assert second.summary.fabricated_values == ()


def test_a_loop_without_end_ends_with_the_budget(bench: Bench) -> None:
    run = bench.run(
        """
import jax, jax.numpy as jnp
x = jax.jit(lambda x: jax.lax.while_loop(lambda c: c > 0, lambda c: c + 1, x))(1.0)
print("result", float(x))
""",
        VTPU_VALUES_BUDGET="500ms",
    )
    run.succeeded("result 0.0\n")
    assert whys(run) == [("print", "read", 1, "computing it takes longer than the budget: 0.5 s")]


def test_a_kernel_without_a_form_for_cpus_is_named(bench: Bench) -> None:
    run = bench.run(
        """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def kernel(x, o):
    pltpu.prng_seed(0)
    o[...] = pltpu.prng_random_bits((8, 128)).astype(jnp.int32)

f = jax.jit(lambda x: pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.int32))(x))
print(int(f(jnp.ones((8, 128), jnp.int32))[0, 0]))
""",
        on="v5e-1",
    )
    run.succeeded("0\n")
    ((line, how, count, why),) = whys(run)
    assert (line, how, count) == ("print", "read", 1)
    assert "JAX has no form of it for CPUs" in why


def test_memory_that_was_never_written_is_unknown(bench: Bench) -> None:
    run = bench.run("""
import jax, jax.numpy as jnp
print(jnp.empty((2,)).sum(), jax.lax.empty((2,), jnp.float32).shape)
""")
    run.succeeded("0.0 (2,)\n")


def test_what_took_too_long_and_still_runs_is_not_started_again(bench: Bench) -> None:
    run = bench.run(
        """
import jax, jax.numpy as jnp, threading
endless = jax.jit(lambda x: jax.lax.while_loop(lambda x: x > 0, lambda x: x * 0 + 1, x))
for i in range(1, 5):
    int(endless(i))
print(threading.active_count())
x = endless(1)
for _ in range(3):
    x = endless(x)
    int(x)
print(threading.active_count())
""",
        VTPU_VALUES_BUDGET="2s",
    )
    run.succeeded("2\n2\n")
    assert [(line, times) for line, _, times, _ in whys(run)] == [("int", 4), ("int", 3)]
    assert (run.summary.values.computed_s or 0) < 8


CALLBACK = """
import jax, jax.numpy as jnp
x = jnp.ones((64, 64))
f = jax.jit(lambda x: jax.debug.print("sum {} {}", (x @ x).sum(), jnp.int32(7)))
f(x)
jax.effects_barrier()
"""
REFUSED_CALLBACK = [
    ("f", "callback", 2, "computing it needs more than the budget of 1,000 FLOP (jit__lambda)")
]


@pytest.mark.parametrize(("unknown", "seen"), [("zeros", "0.0 0"), ("nan", "nan 0")])
def test_a_callback_beyond_the_budget_gets_what_the_user_wants_and_the_report_says_why(
    bench: Bench, unknown: str, seen: str
) -> None:
    run = bench.run(CALLBACK, VTPU_VALUES_BUDGET="1kFLOP", VTPU_UNKNOWN=unknown)
    run.succeeded(f"sum {seen}\n")
    assert whys(run) == REFUSED_CALLBACK


def test_a_callback_is_not_called_where_unknown_values_are_errors(bench: Bench) -> None:
    run = bench.run(CALLBACK, VTPU_VALUES_BUDGET="1kFLOP", VTPU_UNKNOWN="error")
    assert (run.exit_code, run.printed) == (1, "")
    assert "vtpu: this value is not known" in run.stderr
    assert whys(run) == REFUSED_CALLBACK


def test_looking_that_was_interrupted_says_so(bench: Bench) -> None:
    run = bench.run("""
import jax, os, signal, threading
endless = jax.jit(lambda x: jax.lax.while_loop(lambda x: x > 0, lambda x: x * 0 + 1, x))
x = endless(1)
threading.Timer(2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    int(x)
except KeyboardInterrupt:
    print("interrupted")
""")
    run.succeeded("interrupted\n")
    assert whys(run) == [("int", "read", 1, "computing it was interrupted")]


def test_the_reasons_of_the_core_are_the_first_by_number() -> None:
    assert _core.reasons_of_the_core() == len(OF_THE_CORE)
