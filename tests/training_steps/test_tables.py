"""Models and runs come from tables; what is wrong with one is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.models.calibration import from_calibration
from benchmarks.models.flags import parse_flags
from benchmarks.models.run import Blocks
from benchmarks.models.tables import TableError, read_model, read_run, read_table
from benchmarks.models.weights import count_parameters

EXAMPLES = Path(__file__).parents[2] / "benchmarks/models/examples"
MODEL = {
    "embed": 64,
    "layers": 2,
    "query_heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "mlp": 96,
    "vocab": 128,
}
RUN = {"slice": "v5e-4", "per_device_batch": 2, "sequence": 128}
# As their makers count them; a padded vocabulary and longer positions where MaxText has them.
PUBLIC = {
    "deepseek-v2-lite-v5p-64": 15_706_484_224,
    "gemma2-9b-v5p-16": 9_241_705_984 + 128 * 3584,
    "gpt3-175b-v5p-512": 174_780_997_632,
    "llama2-7b-v5e-64": 6_738_415_616,
    "llama3.1-8b-v6e-8": 8_030_261_248,
    "mixtral-8x7b-v6e-64": 46_702_792_704,
    "mixtral-8x7b-capacity-v5p-128": 46_702_792_704,
}
ROW: dict[str, Any] = {
    "id": "row",
    "model": "llama3.1-tiny",
    "topology": "v6e:2x4",
    "slices": 1,
    "per_device_batch": 3,
    "sequence": 8192,
    "tokens_per_step": 196608,
    "mesh": {"fsdp": 8},
    "config": {
        "per_device_batch_size": 3,
        "ici_fsdp_parallelism": -1,
        "remat_policy": "custom",
        "decoder_layer_input": "offload",
        "query_proj": "device",
        "attention": "flash",
        "use_iota_embed": True,
        "sa_block_q": 2048,
        "sa_use_fused_bwd_kernel": True,
        "dataset_type": "synthetic",
    },
    "xla_flag_groups": ["MATMUL"],
}
MODELS: dict[str, Any] = {
    "llama3.1-tiny": {
        **MODEL,
        "mlp_activation": "silu-gated (two input matrices)",
        "tied_embedding": False,
        "norm": "RMSNorm, epsilon 1e-6, before attention and before the MLP",
        "rope": "yes, max timescale 500000",
        "biases": False,
        "causal": True,
        "optimizer": "adamw, both moments float32",
        "attention": "splash kernel with block sizes",
        "source": "MaxText tag tpu-recipes-v0.1.4",
    },
    "2023": {
        **MODEL,
        "mlp_activation": "relu, one input matrix",
        "tied_embedding": True,
        "norm": "RMSNorm",
        "rope": "yes",
        "attention": "flash kernel",
        "source": "MaxText commit 76bd53b0f",
    },
}
GROUPS = {"MATMUL": "--xla_jf_spmd_threshold_for_windowed_einsum_mib=1000000"}


@pytest.mark.parametrize("name", PUBLIC)
def test_an_example_has_the_parameters_of_its_model(name):
    model, _ = read_table(EXAMPLES / f"{name}.toml")
    assert count_parameters(model) == PUBLIC[name]


def test_every_example_is_counted():
    assert {path.stem for path in EXAMPLES.glob("*.toml")} == set(PUBLIC)


def test_a_table_may_be_json(tmp_path):
    path = tmp_path / "table.json"
    path.write_text(json.dumps({"model": MODEL, "run": RUN}))
    model, run = read_table(path)
    assert (model.embed, run.sequence) == (64, 128)


def test_maxtext_names_say_the_same_as_our_own():
    ours = read_run(
        {
            **RUN,
            "mesh": {"fsdp": -1, "tensor": 2},
            "remat": "custom",
            "tensors": {"out_proj": "offload", "context": "save"},
            "iota_embed": True,
            "blocks": {"q": 1024},
            "moe": "dense",
            "capacity_factor": 1.5,
        }
    )
    theirs = read_run(
        {
            "slice": "v5e-4",
            "per_device_batch_size": 2,
            "max_target_length": 128,
            "ici_fsdp_parallelism": -1,
            "ici_tensor_parallelism": 2,
            "remat_policy": "custom",
            "out_proj": "offload",
            "context": "device",
            "use_iota_embed": True,
            "sa_block_q": 1024,
            "attention": "flash",
            "sparse_matmul": False,
            "capacity_factor": 1.5,
            "steps": 30,
        }
    )
    assert ours == theirs


def test_a_gated_activation_is_one_of_two_matrices():
    base = {key: value for key, value in MODEL.items() if key != "gated"}
    assert read_model({**base, "mlp_activations": ["gelu", "linear"]}).gated
    assert not read_model({**base, "mlp_activations": ["relu"]}).gated
    with pytest.raises(TableError, match="gated by 'linear' or not"):
        read_model({**base, "mlp_activations": ["relu", "gelu"]})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"embedd": 64}, "model has no entry 'embedd' \\(did you mean 'embed'\\?\\). Known: "),
        ({"embed": "64"}, "embed = '64' is no int"),
        ({"embed": True}, "embed = True is no int"),
        ({"activation": "swish"}, "activation = 'swish'. Known: gelu, relu, silu"),
        ({"head_norms": ["query", "kee"]}, "head_norms = 'kee' \\(did you mean 'key'\\?\\)"),
        ({"kv_heads": 3}, "query_heads = 4 is no multiple of kv_heads = 3"),
        ({"head_dim": 15}, "rope rotates pairs, and 15 is odd"),
        ({"experts": 4}, "of experts = 4 a token takes experts_per_token = 0"),
        ({"experts_per_token": 2}, "need experts"),
        ({"windows": [4, 4, 0]}, "layers come in cycles of windows, and 2 are no multiple of 3"),
        ({"kv_rank": 8}, "kv_rank, rope_dim and value_dim come together"),
        ({"fused_qkv": True}, "fused_qkv needs as many kv_heads as query_heads"),
    ],
)
def test_a_wrong_model_says_what_is_wrong(table, message):
    with pytest.raises(TableError, match=message):
        read_model({**MODEL, **table})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"remat": "ful"}, "no remat policy 'ful' \\(did you mean 'full'\\?\\)"),
        ({"tensors": {"out_proj": "save"}}, "tensors are for remat = 'custom'"),
        ({"remat": "custom", "tensors": {"out": "save"}}, "no tensor is called 'out'"),
        ({"remat": "custom", "out_proj": "host"}, "out_proj = 'host'. Known: offload, remat, save"),
        ({"mesh": {"fdsp": 4}}, "mesh has no axis fdsp; it has data, fsdp"),
        ({"mesh": {"fsdp": -1, "tensor": -1}}, "only one axis of mesh can be -1"),
        ({"mesh": {"fsdp": 0}}, "sizes of mesh are at least 1"),
        ({"per_device_batch": 0}, "larger than 0"),
        ({"sa_block_q": "large"}, "q = 'large' is no int"),
        ({"attention": "paged"}, "attention = 'paged'. Known: dot_product, old_flash, splash"),
        ({"int8_training": True}, "cannot build a step with True"),
        ({"ici_pipeline_parallelism": 2}, "run has no entry 'ici_pipeline_parallelism'"),
    ],
)
def test_a_wrong_run_says_what_is_wrong(table, message):
    with pytest.raises(TableError, match=message):
        read_run({**RUN, **table})


def test_what_is_missing_is_named():
    with pytest.raises(TableError, match="Model needs embed, layers, query_heads"):
        read_model({})


@pytest.mark.parametrize(
    ("text", "message"),
    [("[model]\n", "needs two parts"), ("embed =", "is no table"), ("", "needs two parts")],
)
def test_a_file_that_is_no_table_is_refused(tmp_path, text, message):
    path = tmp_path / "table.toml"
    path.write_text(text)
    with pytest.raises(TableError, match=f"table.toml.*{message}"):
        read_table(path)


def test_flags_become_options_of_their_types():
    text = "--xla_a=true --xla_b=98304 --xla_c=ENABLED", "--xla_d=false\n --xla_e"
    assert parse_flags(text) == {
        "xla_a": True,
        "xla_b": 98304,
        "xla_c": "ENABLED",
        "xla_d": False,
        "xla_e": True,
    }
    with pytest.raises(ValueError, match="'--=3' is no flag"):
        parse_flags(["--=3"])


# ---- rows of measurements -----------------------------------------------------------------------------


def test_a_row_is_read_with_its_model_and_flags():
    model, run = from_calibration(ROW, MODELS, GROUPS)
    assert (model.rope, model.rope_timescale, model.epsilon) == ("shifts", 500_000, 1e-6)
    assert (model.gated, model.activation) == (True, "silu")
    assert (run.slice_name, run.attention, run.iota_embed) == ("v6e:2x4", "splash", True)
    assert run.mesh == {"fsdp": 8}
    assert run.blocks == Blocks(q=2048, use_fused_bwd_kernel=True)
    assert run.tensors == {"decoder_layer_input": "offload", "query_proj": "save"}
    assert parse_flags(run.flags) == {"xla_jf_spmd_threshold_for_windowed_einsum_mib": 1_000_000}


def test_a_trainer_of_2023_has_its_own_block_and_kernel():
    model, run = from_calibration({**ROW, "model": "2023"}, MODELS, GROUPS)
    assert (model.block, model.rope, model.gated) == ("parallel", "pairs", False)
    assert model.head_norms == ("query", "key", "value")
    assert run.attention == "old_flash"


def test_a_row_may_be_configured_as_another():
    other = {**ROW, "id": "other", "config": "as row", "xla_flag_groups": []}
    assert from_calibration(other, MODELS, GROUPS, [ROW]) == from_calibration(ROW, MODELS, GROUPS)
    with pytest.raises(TableError, match="configured as row, which is not among the rows"):
        from_calibration(other, MODELS, GROUPS)


def test_what_a_row_changes_of_its_model_goes_to_the_model():
    config = {**ROW["config"], "logits_dot_in_fp32": True, "enable_checkpointing": False}
    model, _ = from_calibration({**ROW, "config": config}, MODELS, GROUPS)
    assert model.logits_in_float32


@pytest.mark.parametrize(
    ("mesh", "inner", "outer"),
    [
        ({"fsdp": 8}, {"fsdp": 8}, {"data": 2}),
        ({"fsdp": 16}, {"fsdp": 8}, {"fsdp": 2}),
        ({"data": 2, "fsdp": 8}, {"data": 1, "fsdp": 8}, {"data": 2}),
    ],
)
def test_a_mesh_over_slices_is_split(mesh, inner, outer):
    row = {**ROW, "slices": 2, "mesh": mesh, "tokens_per_step": 2 * 196608}
    _, run = from_calibration(row, MODELS, GROUPS)
    assert (run.slice_name, run.mesh, run.dcn_mesh) == ("2*v6e:2x4", inner, outer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "llama9"}, "row row has no model of llama3.1-tiny, 2023"),
        ({"xla_flag_groups": ["NONE"]}, "no group of flags is called 'NONE'. Known: MATMUL."),
    ],
)
def test_a_row_that_refers_to_nothing_is_refused(change, message):
    with pytest.raises(TableError, match=message):
        from_calibration({**ROW, **change}, MODELS, GROUPS)


def test_a_row_whose_model_counts_otherwise_is_refused():
    models = {"llama3.1-tiny": {**MODELS["llama3.1-tiny"], "params": 1000}}
    with pytest.raises(TableError, match="parameters, and the table says 1,000"):
        from_calibration(ROW, models, GROUPS)
