"""What JAX's own suite taught about the device; see `tests/conformance`."""

from __future__ import annotations

DONATION = """
import jax, jax.numpy as jnp, numpy as np
from jax.experimental.layout import Format, Layout
x = jax.device_put(np.ones((32, 256), jnp.bfloat16))
other = Format(Layout(major_to_minor=(1, 0), tiling=((8, 128), (2, 1))), x.sharding)
jax.jit(lambda x: x * x, out_shardings=other, donate_argnums=0).lower(x).compile()(x)
print(x.is_deleted())
jax.jit(lambda x: x + 1, donate_argnums=0)(x)
print(x.is_deleted())
"""
EXPLANATIONS = """
import logging, sys
import jax, jax.numpy as jnp
logging.basicConfig(stream=sys.stdout, format="%(message)s")
f = jax.jit(lambda x: x + 1)
f(jnp.ones(3))
with jax.explain_cache_misses(True):
    f(jnp.ones(4))
f(jnp.ones(5))
"""
TOKENS = """
import jax, jax.numpy as jnp
from jax.experimental import io_callback
f = jax.jit(lambda x: (io_callback(lambda _: None, None, x, ordered=True), x + 1)[1])
print(f(jnp.ones(3)).shape)
jax.effects_barrier()
"""
KERNEL = """
import traceback
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def kernel(x, y):
    y[...] = x[:, ::8]  # Mosaic refuses this
call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 16), jnp.float32))
for _ in range(2):
    try:
        call(jnp.ones((8, 128)))
    except Exception as error:
        print(type(error).__name__, traceback.extract_tb(error.__traceback__)[-1].line)
"""
INSPECTION = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
x = jax.device_put(np.arange(8.0), NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x")))

def f(x, show):
    y = x * 2
    jax.debug.inspect_array_sharding(y, callback=show)
    return y + 1
for i in range(2):
    jax.jit(lambda x: f(x, lambda sharding: print(i, tuple(sharding.spec))))(x)

def no(sharding):
    raise ValueError("not this one")
try:
    jax.jit(lambda x: f(x, no))(x)
except Exception as error:
    print("not this one" in str(error))
"""


def test_an_argument_whose_memory_no_output_takes_stays_alive(virtual):
    ended = virtual.run(DONATION)
    assert (ended.exit_code, ended.stdout) == (0, "False\nTrue\n")


def test_explanations_of_cache_misses_are_shown_to_who_asks_for_them(virtual):
    ended = virtual.run(EXPLANATIONS)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.count("TRACING CACHE MISS") >= 1
    assert "f32[4]" in ended.stdout
    assert "f32[5]" not in ended.stdout


def test_programs_with_ordered_effects_run(virtual):
    ended = virtual.run(TOKENS)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "(3,)\n", "")


def test_the_partitioner_tells_a_program_its_shardings_also_when_the_result_is_known(virtual):
    ended = virtual.run(INSPECTION)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "0 ('x',)\n1 ('x',)\nTrue\n"


def test_an_error_of_a_kernel_points_at_its_line_also_when_the_refusal_is_known(virtual):
    ended = virtual.run(KERNEL)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == 2 * "MosaicError y[...] = x[:, ::8]  # Mosaic refuses this\n"
