"""`vtpu.fit_batch` on small programs with small limits, found by real compiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CASE = Path(__file__).parents[1] / "cases" / "hbm-batch-not-monotone"
START = """
import json, sys
import numpy as np
import jax, jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec as P
import vtpu

S = jax.ShapeDtypeStruct
found = {}
def f(w, x):
    return x @ w
w = S((512, 512), jnp.float32)
def x(batch, sharding=None):
    return S((batch, 512), jnp.float32, sharding=sharding)
def note(name, *args, on="v5e:1x1", **more):
    fit = vtpu.fit_batch(f, *args, on=on, **more)
    found[name] = fit.as_json()
    return fit
"""
END = "\njson.dump(found, sys.stdout)\n"


def fitted(bench, text, **environment):
    (bench.folder / "prog.py").write_text(START + text + END)
    ended = bench.python("prog.py", **environment)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert [path.name for path in bench.folder.iterdir()] == ["prog.py"]
    found = json.loads(ended.stdout)
    for fit in found.values():
        check_laws(fit)
    return found


def check_laws(fit):
    """What holds of every sweep."""
    rows = fit["candidates"]
    assert [row["batch"] for row in rows] == sorted({row["batch"] for row in rows})
    assert len(rows) <= fit["most_compiles"]
    room = fit["limit_bytes"] - fit["margin_bytes"]
    fitting = [row["batch"] for row in rows if row["fits"]]
    assert fit["largest"] == max(fitting, default=None)
    assert fit["best"] in (None, *fitting)
    for row in rows:
        assert row["batch"] % fit["step"] == 0
        assert not row["fits"] or row["need_bytes"] <= room
        if row["need_bytes"] is not None:
            assert row["temp_bytes"] <= row["allocated_bytes"] <= row["need_bytes"]
            assert row["batch_padding_bytes"] <= row["padding_bytes"] <= row["need_bytes"]


WHOLE = """
exact = dict(limit="3MiB", margin=0, resolution=1)
fit = note("exact", (w, x(12)), 12, **exact)
assert str(fit).startswith("vtpu fit_batch")
assert "x (float32[12,512]), dimension 0" in str(fit)
assert "compiler: needs, per example, padding" in str(fit)
note("margin", (w, x(12)), 12, limit="3MiB", margin="50%", resolution=1)
few = dict(limit="3MiB", margin=0, most_compiles=3)
note("few", (w, x(12)), 12, **few)
note("by name", (w, x(12)), {"x": 0}, **few)
note("by number, from the end", (w, x(12)), {1: -2}, **few)
note("as vmap", (w, x(12)), (None, 0), **few)
note("a function of the size", lambda size: (w, x(size)), 12, **few)
note("keywords", (w,), {"x": 0}, kwargs={"x": x(12)}, **few)
note("nothing fits", (w, x(12)), 12, limit=1000)
"""


def test_the_largest_batch_is_found_to_the_last_example(bench):
    found = fitted(bench, WHOLE, JAX_PLATFORMS="cpu")
    exact = found["exact"]
    by_batch = {row["batch"]: row for row in exact["candidates"]}
    largest = by_batch[exact["largest"]]
    assert exact["next_above"] == exact["largest"] + 1
    assert exact["limit_bytes"] == 3 * 2**20 < by_batch[exact["next_above"]]["need_bytes"]
    assert exact["best"] == exact["largest"] == largest["batch"]
    assert exact["largest"] % exact["tile_multiple"] == 0
    assert by_batch[12]["pads_nothing"] is False
    assert by_batch[12]["batch_padding_bytes"] == 2 * 4 * 512 * 4  # 12 rows of 16, in and out
    assert largest["allocated_bytes"] - largest["temp_bytes"] == exact["largest"] * 512 * 4
    assert found["margin"]["margin_bytes"] == 3 * 2**19
    assert found["margin"]["largest"] < exact["largest"]
    assert found["nothing fits"]["largest"] is None
    assert found["nothing fits"]["candidates"][0]["batch"] == 1
    answers = [
        [(row["batch"], row["need_bytes"]) for row in found[name]["candidates"]]
        for name in found
        if name not in ("exact", "margin", "nothing fits")
    ]
    assert len(answers) == 6
    assert all(answer == answers[0] for answer in answers)


SHARDED = """
def rows(mesh):
    return NamedSharding(mesh, P("data", None))
abstract = AbstractMesh((4, 2), ("data", "model"))
given = dict(on="v5e:2x4", limit="2MiB", margin=0, most_compiles=24, resolution=1)
note("abstract", (w, x(64, rows(abstract))), {"x": 0}, **given)
vtpu.attach("v5e-8", report=False)
attached = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
array = jnp.ones((64, 512), device=rows(attached))
given["on"] = None
note("attached", (jnp.ones(w.shape), array), 64, **given)
"""


def test_a_sharded_batch_stays_divisible_with_and_without_a_slice(bench):
    found = fitted(bench, SHARDED)
    assert {fit["step"] for fit in found.values()} == {4}
    assert len({fit["largest"] for fit in found.values()}) == 1
    largest = found["abstract"]["largest"]
    assert found["abstract"]["next_above"] - largest <= 4
    assert found["abstract"]["tile_multiple"] == 32  # 8 rows on each of 4


INSIDE = """
def f(w, x):
    return (x.reshape(16, -1, 512) @ w).sum(0)
note("micro", (w, x(64)), 64, limit="8MiB", most_compiles=16)
def f(params, batch):
    return (batch["tokens"] @ params["w"]).sum() + batch["labels"].sum()
batch = {"tokens": x(64), "labels": S((64,), jnp.int32)}
note("tree", ({"w": w}, batch), 64, limit="8MiB", most_compiles=4)
note("partly", ({"w": w}, batch), {"batch": {"tokens": 0, "labels": 0}}, limit="8MiB", most_compiles=4)
"""


def test_batches_that_are_split_inside_and_trees_of_arguments(bench):
    found = fitted(bench, INSIDE, JAX_PLATFORMS="cpu")
    assert all(row["batch"] % 16 == 0 for row in found["micro"]["candidates"])
    assert found["micro"]["largest"] % 16 == 0
    assert found["tree"]["candidates"] == found["partly"]["candidates"]
    assert len(found["tree"]["scales"]) == 2


NOT_MONOTONE = """
sys.path.insert(0, {folder!r})
import prog
f = prog.step
note("case", prog.args_for, 65536, limit=11_200_000_000, margin=0, resolution=65536, most_compiles=4)
"""


@pytest.mark.slow
def test_a_batch_above_one_that_does_not_fit_is_found(bench):
    found = fitted(bench, NOT_MONOTONE.format(folder=str(CASE)), JAX_PLATFORMS="cpu")["case"]
    fits = {row["batch"]: row["fits"] for row in found["candidates"]}
    assert fits[131072] is False
    assert found["largest"] in (196608, 262144)  # of jax 0.10.2 and 0.12
