"""What is found in the text of a program: meshes, the step's call, its results, gradients, losses, numbers."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from changes.trying import as_file
from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.constants import number_for
from vtpu.changes.source.gradients import function_of
from vtpu.changes.source.jit_sites import JitSite, site_of
from vtpu.changes.source.losses import Reduction, has_only_means, reduction_of
from vtpu.changes.source.meshes import meshes_in, visible_mesh
from vtpu.changes.source.returns import returned
from vtpu.changes.source.scopes import free_variables
from vtpu.changes.source.state import State
from vtpu.changes.source.step_calls import StepCall, binding, call_on

NO_STATE = State(parameters=(), optimizer=(), batch=(), arrays=(), results=(), mesh=())


def file_of(text: str) -> SourceFile:
    return as_file(dedent(text))


def call_of(text: str, name: str = "step") -> tuple[JitSite, StepCall]:
    """The step's site, and its call: the last line that has its name."""
    file = file_of(text)
    site = site_of(file, name)
    assert site
    lines = [n for n, line in enumerate(file.text.split("\n"), 1) if f"{name}(" in line]
    call = call_on(file, lines[-1], site)
    assert call
    return site, call


# ---- meshes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "maker", "shape"),
    [
        ('Mesh(np.array(jax.devices()), ("data",))', "Mesh", (("data", 8),)),
        ('jax.sharding.Mesh(jax.devices(), axis_names=("a", "b"))', "Mesh", ()),
        ('jax.make_mesh((2, 4), ("data", "model"))', "make_mesh", (("data", 2), ("model", 4))),
        ('Mesh(devices.reshape(4, 2), ("a", "b"))', "Mesh", (("a", 4), ("b", 2))),
        ('Mesh(create_device_mesh((4, 2)), ("a", "b"))', "Mesh", (("a", 4), ("b", 2))),
        ('Mesh(devices.reshape(-1, 2), ("a", "b"))', "Mesh", ()),
        ('Mesh(devices, "x")', "Mesh", (("x", 8),)),
        ("Mesh(devices, NAMES)", "Mesh", ()),
    ],
)
def test_a_mesh_is_found_with_its_axes(made, maker, shape):
    file = file_of(f"import jax\nfrom jax.sharding import Mesh\nmesh = {made}\n")
    (found,) = meshes_in(file)
    assert (found.maker, found.shape(8), found.text) == (maker, shape, "mesh")


def test_a_mesh_of_another_function_is_not_to_be_seen():
    file = file_of("""
        from jax.sharding import Mesh
        def make():
            mesh = Mesh(devices, ("data",))
            return mesh
        def train():
            step(x)
        """)
    call = next(n for n in ast.walk(file.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "step")  # fmt: skip
    assert visible_mesh(file, call) is None
    assert visible_mesh(file, meshes_in(file)[0].node) == "mesh"


def test_an_object_has_its_mesh():
    file = file_of("""
        from jax.sharding import Mesh
        class Trainer:
            def __init__(self):
                self.mesh = Mesh(devices, ("data",))
            def train(self):
                return self.step(x)
        """)
    method = next(n for n in ast.walk(file.tree) if getattr(n, "name", "") == "train")
    assert visible_mesh(file, list(ast.walk(method))[-1]) == "self.mesh"


# ---- the call of the step ----------------------------------------------------------------------

LOOP = """
import jax

@jax.jit
def step(params, opt, batch):
    return params, opt

def main():
    params = init()
    if restart:
        params = load()
    opt = make(params)
    for epoch in range(2):
        for batch in batches:
            params, opt = step(params, opt, batch=batch)
"""


def test_a_call_has_its_arguments_its_outermost_loop_and_what_takes_its_results():
    _, call = call_of(LOOP)
    assert call.file.source(call.argument("opt")) == "opt"
    assert call.file.source(call.argument("batch")) == "batch"
    assert call.argument("nothing") is None
    assert isinstance(call.first, ast.For)
    assert call.file.source(call.first.target) == "epoch"
    assert call.targets == ("params", "opt")


def test_the_last_statement_binds_an_argument_if_it_is_sure_to_run():
    _, call = call_of(LOOP)
    made = binding(call, call.argument("opt"), for_all=True)
    assert call.file.source(made) == "opt = make(params)"
    assert binding(call, call.argument("params"), for_all=True) is None
    assert binding(call, call.argument("batch"), for_all=True) is None


def test_a_method_takes_no_self():
    _, call = call_of("""
        import jax
        class Trainer:
            @jax.jit
            def step(self, params, x):
                return params
            def train(self):
                self.params = self.step(self.params, x)
        """)
    assert call.parameters == ("params", "x")
    assert call.targets == ("self.params",)


def test_arguments_behind_a_star_are_not_told():
    _, call = call_of("import jax\nstep = jax.jit(lambda a, b: a)\nout = step(*arrays)\n")
    assert call.argument("a") is None
    assert call.star() == ("arrays", 0)


# ---- results -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ("new_params, loss", {"params": "new_params"}),
        ("(params, opt), loss", {"params": "params", "opt": "opt"}),
        ("loss, params_new", {"params": "params_new"}),
        ("update(params)", {}),
    ],
)
def test_a_result_is_told_by_its_name(result, found):
    site, _ = call_of(f"""
        import jax
        @jax.jit
        def step(params, opt, x):
            return {result}
        out = step(a, b, c)
        """)
    assert {n: site.file.source(r.node) for n, r in returned(site, None, NO_STATE).items()} == found


def test_a_result_is_told_by_what_takes_it():
    site, call = call_of("""
        import jax
        @jax.jit
        def step(p, x):
            grads = jax.grad(loss)(p, x)
            return loss, p - grads
        value, weights = step(weights, x)
        """)
    found = returned(site, call, NO_STATE)
    assert site.file.source(found["p"].node) == "p - grads"
    assert found["p"].place == 1


def test_a_function_with_several_ends_tells_nothing():
    site, call = call_of("""
        import jax
        @jax.jit
        def step(p, x):
            if x is None:
                return p
            return p + 1
        p = step(p, x)
        """)
    assert returned(site, call, NO_STATE) == {}


# ---- losses ------------------------------------------------------------------------------------


def reduction(body: str, *batch: str) -> Reduction:
    file = file_of(body)
    return reduction_of(file, function_of(file, ast.Name("loss"), file.tree), set(batch))


@pytest.mark.parametrize(
    ("returned_value", "kind"),
    [
        ("jnp.mean(jnp.square(x @ p))", Reduction.MEAN),
        ("-jnp.square(x @ p).sum(axis=-1).mean()", Reduction.MEAN),
        ("0.5 * jnp.square(x @ p).mean() + 1e-4 * jnp.square(p).sum()", Reduction.MEAN),
        ("jnp.sum(x @ p)", Reduction.SUM),
        ("jnp.sum(x @ p) / x.shape[0]", Reduction.MEAN),
        ("jnp.sum(x @ p) / len(x)", Reduction.MEAN),
        ("jnp.sum(x @ p) / ROWS", Reduction.SUM),
        ("jnp.sum(x @ p) / mask(x).sum()", Reduction.UNKNOWN),
        ("jnp.mean(x @ p, axis=0)[0]", Reduction.UNKNOWN),
        ("jnp.mean(x @ p) * jnp.mean(x)", Reduction.UNKNOWN),
        ("other(x, p)", Reduction.MEAN),
        ("other(x, p), {'a': x}", Reduction.MEAN),
    ],
)
def test_a_loss_says_how_it_reduces_the_batch(returned_value, kind):
    body = f"""
        import jax.numpy as jnp
        def other(y, q):
            error = jnp.abs(y @ q)
            value = error.mean()
            return value
        def loss(p, x):
            return {returned_value}
        """
    assert reduction(body, "x") is kind


def test_auxiliary_results_that_are_means_are_told_from_others():
    file = file_of("""
        import jax.numpy as jnp
        def loss(p, x):
            value = jnp.mean(x @ p)
            return value, {"loss": value, "size": (jnp.abs(x)).mean()}
        def other(p, x):
            return jnp.mean(x @ p), x @ p
        """)
    first, second = (function_of(file, ast.Name(n), file.tree) for n in ("loss", "other"))
    assert has_only_means(file, first, {"x"})
    assert not has_only_means(file, second, {"x"})


def test_names_that_a_loss_takes_from_around_it_are_those_that_python_sees():
    file = file_of("""
        def step(params, x, y):
            def loss(params):
                def layer(x, w):
                    return x @ w
                return layer(x, params) - y
            return loss(params)
        """)
    inner = next(n for n in ast.walk(file.tree) if getattr(n, "name", "") == "loss")
    loss = function_of(file, ast.Name("loss"), inner)
    assert loss
    assert free_variables(file, loss) == {"x", "y"}


# ---- numbers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("BATCH, WIDTH = 32, 32", "BATCH"),
        ("size: int = 32", "size"),
        ("def main(width=32, *, batch_size=32): pass", "batch_size"),
        ("parser.add_argument('--batch-size', type=int, default=32)", "--batch-size"),
        ("config = Config(batch=32, layers=2)", "batch"),
    ],
)
def test_the_number_that_is_the_batch_is_found_by_value_and_name(text, name):
    found = number_for([file_of(text)], [32], ["batch"])
    assert not isinstance(found, str)
    assert (found.name, found.value) == (name, 32)


def test_two_numbers_without_a_telling_name_are_not_guessed_between():
    reason = number_for([file_of("A, B = 32, 32")], [32], ["batch"])
    assert isinstance(reason, str)
    assert "A (line 1), B (line 1)" in reason
