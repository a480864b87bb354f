"""Small steps compile for a slice, through vtpu and its cache, in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training_steps.training import EXPERTS, GEMMA2, LATENT, MAXTEXT_2023, MODEL

ROOT = Path(__file__).parents[2]
WIDE = {"embed": 128, "head_dim": 128, "layers": 2}
RUN = {"slice": "v5e:2x2", "per_device_batch": 1, "sequence": 256}
OFFLOAD = {"remat": "custom", "tensors": {"decoder_layer_input": "offload", "query_proj": "save"}}
FUSED = {"blocks": {"use_fused_bwd_kernel": True}}
FORMS = {
    "splash": (MODEL, FUSED),
    "old flash": (MAXTEXT_2023, {"attention": "old_flash", "iota_embed": True}),
    "tensor": (MODEL, {"mesh": {"fsdp": 2, "tensor": 2}, "remat": "minimal"}),
    "context": (MODEL, {"mesh": {"fsdp": 2, "context": 2}}),
    "offload": (MODEL, OFFLOAD),
    "windows": (GEMMA2, {}),
    "latent": (LATENT, {}),
    "megablox over devices": (EXPERTS, {"mesh": {"fsdp": 2, "expert": 2}}),
    "capacity over devices": (
        EXPERTS,
        {"mesh": {"fsdp": 2, "expert": 2}, "moe": "dense", "capacity_factor": 1.25},
    ),
}
COMPILE = """
import json, sys
sys.path.append(sys.argv[1])
from benchmarks.models.compiling import compile_step
from benchmarks.models.tables import read_model, read_run

model, run = json.load(open("table.json"))
found = compile_step(read_model(model), read_run(run))
json.dump({
    "error": found.record.error,
    "dropped": found.dropped,
    "need_bytes": found.need_bytes,
    "argument_bytes": found.record.argument_bytes,
    "alias_bytes": found.record.alias_bytes,
    "host_temp_bytes": found.record.host_temp_bytes,
    "kernels": found.hlo.count(b"tpu_custom_call"),
}, sys.stdout)
"""


def compiled(bench, model, run):
    model = {**model, **WIDE, **({"expert_mlp": 128} if "experts" in model else {})}
    (bench.folder / "table.json").write_text(json.dumps([model, {**RUN, **run}]))
    (bench.folder / "prog.py").write_text(COMPILE)
    ended = bench.python("prog.py", str(ROOT), JAX_PLATFORMS="cpu")
    assert ended.exit_code == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_step_compiles(bench, form):
    model, run = FORMS[form]
    found = compiled(bench, model, run)
    assert (found["error"], found["dropped"]) == (None, [])
    assert found["need_bytes"] >= found["argument_bytes"] > found["alias_bytes"] > 0
    assert (found["host_temp_bytes"] > 0) == (form == "offload")
    assert found["kernels"] > 0


def test_a_flag_that_the_compiler_does_not_take_is_dropped_and_named(bench):
    run = {
        "attention": "dot_product",
        "flags": ["--xla_no_such_flag=3 --xla_tpu_scoped_vmem_limit_kib=32768"],
    }
    found = compiled(bench, MODEL, run)
    assert (found["error"], found["dropped"]) == (None, ["--xla_no_such_flag=3"])


def test_what_does_not_fit_says_so(bench):
    run = {"attention": "dot_product", "per_device_batch": 65536}
    found = compiled(bench, MODEL, run)
    assert "Ran out of memory" in found["error"]
    assert found["need_bytes"] is None


def test_the_command_prints_the_memory(bench):
    table = "[model]\n" + "\n".join(f"{k} = {v}" for k, v in {**MODEL, **WIDE}.items())
    table += '\n[run]\nslice = "v5e:2x2"\nper_device_batch = 1\nsequence = 256\nattention = "dot_product"\n'
    (bench.folder / "table.toml").write_text(table)
    ended = bench.python("-m", "benchmarks.models", "table.toml", PYTHONPATH=f"{ROOT}/src:{ROOT}")
    assert ended.exit_code == 0, ended.stderr
    assert "parameters on v5e:2x2" in ended.stdout
    assert "HBM needed" in ended.stdout


def test_the_command_says_what_is_wrong_with_a_table(bench):
    (bench.folder / "table.toml").write_text("[model]\n[run]\n")
    ended = bench.python("-m", "benchmarks.models", "table.toml", PYTHONPATH=f"{ROOT}/src:{ROOT}")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("table.toml: Model needs embed")
