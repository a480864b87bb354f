"""`vtpu.check` in a user's process: everything that describes a program, with and without a slice."""

from __future__ import annotations

import json

import pytest

CPUS = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
START = """
import json, os, sys
import numpy as np
import jax, jax.numpy as jnp, jax.export
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec as P
import vtpu

S = jax.ShapeDtypeStruct
found = {}

def note(name, check):
    kinds = {str(k): v for k, v in check.usage.hbm.by_kind.items()}
    found[name] = [check.report.origin.num_devices, check.need_bytes, kinds]

def f(w, x):
    return x @ w
"""
END = "\njson.dump(found, sys.stdout)\n"


def checked(bench, text, **environment):
    (bench.folder / "prog.py").write_text(START + text + END)
    ended = bench.python("prog.py", **environment)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert [path.name for path in bench.folder.iterdir()] == ["prog.py"]
    return json.loads(ended.stdout)


ONE_DEVICE = """
on = dict(on="v5e:1x1")
w, x = S((256, 512), jnp.float32), S((64, 256), jnp.float32)
jitted = jax.jit(f)
lowered = jitted.trace(w, x).lower(lowering_platforms=("tpu",))
exported = jax.export.export(jitted, platforms=["tpu"])(w, x)
note("function", vtpu.check(f, w, x, **on))
note("again", vtpu.check(f, w, x, **on))
note("jitted", vtpu.check(jitted, w, x, **on))
note("keywords", vtpu.check(f, w, x=x, **on))
note("arrays", vtpu.check(f, np.ones(w.shape, w.dtype), jnp.ones(x.shape), **on))
note("lowered", vtpu.check(lowered, **on))
note("exported", vtpu.check(exported, **on))
note("exported, arguments", vtpu.check(exported, w, x, **on))
note("export bytes", vtpu.check(exported.serialize(), **on))
note("StableHLO text", vtpu.check(lowered.as_text(), **on))
note("StableHLO bytecode", vtpu.check(exported.mlir_module_serialized, **on))
note("HLO text", vtpu.check(lowered.as_text("hlo"), **on))
note("HLO proto", vtpu.check(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto(), **on))
"""


def test_a_program_needs_the_same_however_it_is_described(bench):
    found = checked(bench, ONE_DEVICE, JAX_PLATFORMS="cpu")
    assert len(found) == 13
    assert all(answer == found["function"] for answer in found.values()), found
    devices, _, kinds = found["function"]
    assert devices == 1
    assert kinds["argument"] == 256 * 512 * 4 + 64 * 256 * 4
    assert kinds["output"] == 64 * 512 * 4


MANY_DEVICES = """
def spread(mesh):
    return (
        S((256, 512), jnp.float32, sharding=NamedSharding(mesh, P(None, "model"))),
        S((64, 256), jnp.float32, sharding=NamedSharding(mesh, P("data", None))),
    )

real = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
w, x = spread(real)
jitted = jax.jit(f)
lowered = jitted.trace(w, x).lower(lowering_platforms=("tpu",))
exported = jax.export.export(jitted, platforms=["tpu"])(w, x)
on = dict(on="v5e:2x4")
arrays = [jax.device_put(np.ones(a.shape, a.dtype), a.sharding) for a in (w, x)]
note("mesh of CPUs", vtpu.check(jitted, w, x, **on))
note("arrays", vtpu.check(jitted, *arrays, **on))
note("abstract mesh", vtpu.check(f, *spread(AbstractMesh((4, 2), ("data", "model"))), **on))
note("larger slice", vtpu.check(f, w, x, on="v5e-16"))
note("lowered", vtpu.check(lowered, **on))
note("exported", vtpu.check(exported, **on))
note("export bytes", vtpu.check(exported.serialize(), **on))
note("StableHLO text", vtpu.check(lowered.as_text(), **on))
note("HLO text", vtpu.check(lowered.as_text("hlo"), **on))
"""


def test_a_sharded_program_needs_the_same_however_it_is_described(bench):
    found = checked(bench, MANY_DEVICES, **CPUS)
    assert len(found) == 9
    assert all(answer == found["mesh of CPUs"] for answer in found.values()), found
    devices, _, kinds = found["mesh of CPUs"]
    assert devices == 8
    assert kinds["argument"] == 256 * 256 * 4 + 16 * 256 * 4
    assert kinds["output"] == 16 * 256 * 4


ATTACHED = """
w, x = S((256, 512), jnp.float32), S((64, 256), jnp.float32)
jitted = jax.jit(f)
note("before", vtpu.check(jitted, w, x, on="v5e:2x4"))
before = os.environ.get("JAX_PLATFORMS"), jax.config.jax_platforms
assert before == (None, None), before
vtpu.attach("v5e-8", report=False)
assert jax.devices()[0].device_kind == "TPU v5 lite"
note("attached", vtpu.check(jitted, w, x))
arrays = jnp.ones(w.shape), jnp.ones(x.shape)
jitted(*arrays)
note("that ran", vtpu.check(jitted, *arrays))
lowered = jitted.lower(*arrays)
lowered.compile()
note("lowered and compiled", vtpu.check(lowered))
other = vtpu.check(jitted, *arrays, on="v5p-8")
assert other.slice.name == "v5p:2x2x1" and other.limit_bytes > 90 * 2**30
assert vtpu.check(lowered, on="v5p-8").need_bytes == other.need_bytes
mesh = Mesh(np.array(jax.devices()), ("data",))
inside = jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("data"))))
assert vtpu.check(inside, arrays[0]).report.origin.num_devices == 8
assert (np.asarray(jitted(*arrays)) == 256).all()
"""


def test_a_slice_can_be_attached_afterwards_and_is_then_used(bench):
    found = checked(bench, ATTACHED)
    assert all(answer == found["before"] for answer in found.values()), found


def test_jaxs_own_cache_on_disk_hides_nothing(bench, tmp_path_factory):
    more = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("jax")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
    }
    first, second = (checked(bench, ATTACHED, **more) for _ in range(2))
    assert first == second


LIBRARIES = """
import equinox as eqx, optax
from flax import nnx
on = dict(on="v5e:1x1")

mlp = eqx.nn.MLP(128, 128, 256, 2, key=jax.random.key(0))
x = jnp.ones((16, 128))
note("equinox", vtpu.check(eqx.filter_jit(lambda m, x: jax.vmap(m)(x)), mlp, x, **on))
double = eqx.filter_jit(lambda x: x * 2, donate="all")
note("equinox, donated", vtpu.check(double, x, **on))
model = nnx.Linear(128, 256, rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

@nnx.jit
def train(model, optimizer, x):
    loss, gradient = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
    optimizer.update(model, gradient)
    return loss

note("flax", vtpu.check(train, model, optimizer, x, **on))
"""


def test_functions_of_libraries(bench):
    pytest.importorskip("equinox")
    pytest.importorskip("flax")
    found = checked(bench, LIBRARIES, JAX_PLATFORMS="cpu")
    weights = (256 * 128 + 256 * 256 + 128 * 256) * 4
    assert weights <= found["equinox"][2]["argument"] <= weights + 2**16
    assert found["equinox, donated"][2]["argument"] == 16 * 128 * 4
    assert found["equinox, donated"][2].get("output", 0) <= 1024  # a table
    assert found["flax"][2]["argument"] >= 3 * 128 * 256 * 4


UNSIZED = """
on = dict(on="v5e:1x1")
note("no argument", vtpu.check(lambda: jnp.arange(4096), **on))
note("a number", vtpu.check(lambda n: jnp.arange(4096) * n, 2.0, **on))
note("a key", vtpu.check(lambda k: jax.random.normal(k, (8, 128)), jax.eval_shape(jax.random.key, 0), **on))
rows = jax.export.symbolic_shape("rows, 128")
exported = jax.export.export(jax.jit(lambda x: x * 2), platforms=["tpu"])(S(rows, jnp.float32))
note("symbolic", vtpu.check(exported, S((8, 128), jnp.float32), **on))
both = jax.export.export(jax.jit(lambda x: x * 2), platforms=["tpu", "cpu"])(S((8, 128), jnp.float32))
note("two platforms", vtpu.check(both, **on))
"""


def test_programs_without_arrays_or_sizes_or_for_several_platforms(bench):
    found = checked(bench, UNSIZED, JAX_PLATFORMS="cpu")
    assert {name: answer[2]["output"] for name, answer in found.items()} == {
        "no argument": 4096 * 4,
        "a number": 4096 * 4,
        "a key": 8 * 128 * 4,
        "symbolic": 8 * 128 * 4,
        "two platforms": 8 * 128 * 4,
    }


USERS_ERROR = """
class Mine(Exception):
    pass

def fails(x):
    raise Mine("of the user")

try:
    vtpu.check(fails, S((3,), jnp.float32), on="v5e:1x1")
except Mine as error:
    found["error"] = str(error)
"""


def test_what_the_function_raises_comes_through(bench):
    assert checked(bench, USERS_ERROR) == {"error": "of the user"}


TIMED = """
from vtpu.checks.check import check_call

w, x = S((4096, 4096), jnp.bfloat16), S((4096, 4096), jnp.bfloat16)
check = vtpu.check(f, w, x, on="v5e:1x1")
assert "modelled" in str(check)
assert check_call(f, (w, x), {}, on="v5e:1x1", time_of=None).time is None
found.update(
    seconds=check.time.seconds, flops=check.time.time.flops, bound=str(check.time.bound),
    parts=sum(r.seconds for r in check.time.rows) + check.time.idle_s, mfu=check.time.mfu,
)
"""


def test_a_check_tells_the_time_of_one_execution(bench):
    found = checked(bench, TIMED)
    assert found["flops"] == 2 * 4096**3
    assert found["parts"] == pytest.approx(found["seconds"])
    assert found["bound"] == "MXU"
    assert 0.3 < found["mfu"] < 1
