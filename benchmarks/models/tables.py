"""Models and runs from tables (TOML, JSON), in our own names or in MaxText's.

A table has two parts, `model` and `run`. What is in neither vocabulary is an error that says what is.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from benchmarks.models.model import Model
from benchmarks.models.remat import NAMES, TENSORS, WAYS
from benchmarks.models.run import AXES, Blocks, Run

Table = Mapping[str, Any]
Fields = dict[str, Any]
Reader = Callable[[Any], Fields]


class TableError(ValueError):
    """A table that makes no model or no run: which entry, why, and what would do."""


def read_table(path: Path) -> tuple[Model, Run]:
    """The model and the run of a file.

    Raises:
        TableError: what is wrong with it.
        OSError: it cannot be read.
    """
    text = path.read_text(encoding="utf-8")
    try:
        table = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise TableError(f"{path.name} is no table: {error}") from error
    if not isinstance(table, dict) or set(table) != {"model", "run"}:
        raise TableError(f"{path.name} needs two parts and no other: [model] and [run]")
    return read_model(table["model"]), read_run(table["run"])


def read_model(table: Table) -> Model:
    """The model that a table describes.

    Raises:
        TableError: what is wrong with it.
    """
    return _make(Model, _read("model", table, _MODEL, {field.name for field in fields(Model)}))


def read_run(table: Table) -> Run:
    """The run that a table describes.

    Raises:
        TableError: what is wrong with it.
    """
    found = _read("run", table, _RUN, {field.name for field in fields(Run)})
    for field in ("mesh", "dcn_mesh", "tensors"):
        found[field] = dict(found.get(field, {}))
    found["blocks"] = _make(Blocks, found.get("blocks", {}))
    if isinstance(flags := found.get("flags", ()), str):
        found["flags"] = (flags,)
    _check_remat(found)
    return _make(Run, found)


def is_of_model(key: str) -> bool:
    """Whether an entry describes the model and not the run."""
    return key in _MODEL or key in {field.name for field in fields(Model)}


def _read(part: str, table: Table, readers: Mapping[str, Reader], own: set[str]) -> Fields:
    """The fields of all entries; entries of one mesh or of the blocks come together."""
    found: Fields = {}
    for key, value in table.items():
        if key in readers:
            entry = readers[key](value)
        elif key in own:
            entry = {key: tuple(value) if isinstance(value, list) else value}
        elif _WITHOUT_EFFECT.fullmatch(key):
            continue
        else:
            raise TableError(_unknown(f"{part} has no entry {key!r}", key, own.union(readers)))
        for name, new in entry.items():
            old = found.get(name)
            if isinstance(old, dict) and isinstance(new, dict):
                found[name] = {**old, **new}
            else:
                found[name] = new
    return found


def _make(kind: Any, values: Fields) -> Any:
    types = get_type_hints(kind)
    for name, value in values.items():
        _check_type(kind.__name__, name, types[name], value)
    needed = [f.name for f in fields(kind) if f.default is f.default_factory is MISSING]
    if missing := [name for name in needed if name not in values]:
        raise TableError(f"{kind.__name__} needs {', '.join(missing)}")
    try:
        return kind(**values)
    except ValueError as error:
        raise TableError(str(error)) from error


def _check_type(owner: str, name: str, kind: Any, value: Any) -> None:
    """Numbers, switches, words and choices; parts of a table are checked where they are made."""
    if get_origin(kind) is tuple:
        for item in value if isinstance(value, tuple) else (value,):
            _check_type(owner, name, get_args(kind)[0], item)
        return
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise TableError(_unknown(f"{owner}: {name} = {value!r}", value, get_args(kind)))
        return
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    allowed = set(kinds) & {int, float, bool, str, type(None)}
    allowed |= {int} if float in allowed else set()
    if allowed and type(value) not in allowed:
        names = " or ".join(sorted(one.__name__ for one in allowed))
        raise TableError(f"{owner}: {name} = {value!r} is no {names}")


def _check_remat(found: Fields) -> None:
    remat, tensors = found.get("remat", "full"), found["tensors"]
    if remat not in NAMES:
        raise TableError(_unknown(f"there is no remat policy {remat!r}", remat, NAMES))
    if tensors and remat != "custom":
        raise TableError(f"tensors are for remat = 'custom', and it is {remat!r}")
    for tensor, way in tensors.items():
        if tensor not in TENSORS:
            raise TableError(_unknown(f"no tensor is called {tensor!r}", tensor, TENSORS))
        if way not in WAYS:
            raise TableError(_unknown(f"{tensor} = {way!r}", way, WAYS))


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"{what}{hint}. Known: {', '.join(names)}."


_WITHOUT_EFFECT = re.compile(  # of MaxText's settings: on the compiled step
    r"run_name|model_name|base_output_directory|hardware|steps|packing|enable_dropout|"
    r".*(checkpoint|tensorboard|goodput|dataset|tokenizer|eval_|profil|metrics|schedule|warmup|"
    r"learning_rate|log_|_seed|shuffl|gcs|hf_|grain_).*|"
    r"adam_.*|reuse_example_batch|jax_cache_dir|global_parameter_scale|"
    r"routed_.*|n_routing_groups|topk_routing_group|(beta|rope)_(fast|slow|factor|type|use_scale)|mscale|"
    r"(original_)?max_position_embeddings|normalize_embedding_logits|attention_type|load_balance.*"
)

# ---- MaxText's names ----------------------------------------------------------------------------------


def _as(name: str) -> Reader:
    return lambda value: {name: value}


def _only(*allowed: Any) -> Reader:
    """For entries of which only some values can be built."""

    def read(value: Any) -> Fields:
        if value not in allowed:
            raise TableError(f"cannot build a step with {value!r}; only with {allowed[0]!r}")
        return {}

    return read


def _activations(names: Any) -> Fields:
    kinds = [names] if isinstance(names, str) else list(names)
    if len(kinds) > 2 or kinds[1:] not in ([], ["linear"]):
        raise TableError(f"mlp_activations = {names!r}: one function, gated by 'linear' or not")
    return {"activation": kinds[0], "gated": len(kinds) == 2}


def _tensor(tensor: str) -> Reader:
    return lambda way: {"tensors": {tensor: {"device": "save"}.get(way, way)}}


def _axis(mesh: str, axis: str) -> Reader:
    return lambda size: {mesh: {axis: size}}


def _block(name: str) -> Reader:
    return lambda size: {"blocks": {name: size}}


def _attention(kind: str) -> Fields:
    """MaxText's `flash` has been the splash kernel since 2024; we call the one before `old_flash`."""
    return {"attention": {"flash": "splash", "autoselected": "splash"}.get(kind, kind)}


def _sparse(is_sparse: bool) -> Fields:
    return {} if is_sparse else {"moe": "dense"}


def _megablox(is_used: bool) -> Fields:
    return {} if is_used else {"moe": "ragged_dot"}


def _capacity(factor: float) -> Fields:
    return {"capacity_factor": factor if factor > 0 else None}


_MODEL: dict[str, Reader] = {
    "base_emb_dim": _as("embed"),
    "base_num_decoder_layers": _as("layers"),
    "base_num_query_heads": _as("query_heads"),
    "base_num_kv_heads": _as("kv_heads"),
    "base_mlp_dim": _as("mlp"),
    "base_moe_mlp_dim": _as("expert_mlp"),
    "mlp_activations": _activations,
    "vocab_size": _as("vocab"),
    "logits_via_embedding": _as("tied_embedding"),
    "logits_dot_in_fp32": _as("logits_in_float32"),
    "normalization_layer_epsilon": _as("epsilon"),
    "rope_max_timescale": lambda scale: {"rope_timescale": float(scale)},
    "trainable_position_size": lambda size: {"positions": max(size, 0)},
    "sliding_window_size": lambda size: {"windows": (size,)},
    "attn_logits_soft_cap": lambda cap: {"attention_cap": float(cap)},
    "final_logits_soft_cap": lambda cap: {"logits_cap": float(cap)},
    "use_post_attn_norm": _as("post_norms"),
    "use_post_ffw_norm": _as("post_norms"),
    "decoder_block": lambda kind: {"block": "parallel"} if kind == "default" else {},
    "use_qk_norm": lambda is_used: {"head_norms": ("query", "key") if is_used else ()},
    "kv_lora_rank": _as("kv_rank"),
    "q_lora_rank": _as("query_rank"),
    "qk_nope_head_dim": _as("head_dim"),
    "qk_rope_head_dim": _as("rope_dim"),
    "v_head_dim": _as("value_dim"),
    "num_experts": lambda count: {"experts": count} if count > 1 else {},
    "num_experts_per_tok": _as("experts_per_token"),
    "first_num_dense_layers": _as("dense_layers"),
    "dtype": _as("compute_dtype"),
    "mu_dtype": _as("moments_dtype"),
}
_RUN: dict[str, Reader] = {
    "per_device_batch_size": _as("per_device_batch"),
    "max_target_length": _as("sequence"),
    "num_slices": _as("slices"),
    "compile_topology": _as("slice"),
    "compile_topology_num_slices": _as("slices"),
    "remat_policy": _as("remat"),
    "param_scan_axis": _as("scan_axis"),
    "use_iota_embed": _as("iota_embed"),
    "attention": _attention,
    "sparse_matmul": _sparse,
    "allow_split_physical_axes": _as("split_physical_axes"),
    "custom_mesh": lambda name: {"rings": name.removeprefix("hybrid_ring_")},
    "megablox": _megablox,
    "capacity_factor": _capacity,
    "xla_flags": _as("flags"),
    "libtpu_init_args": _as("flags"),
    **{tensor: _tensor(tensor) for tensor in TENSORS},
    **{f"ici_{axis}_parallelism": _axis("mesh", axis) for axis in AXES},
    **{f"dcn_{axis}_parallelism": _axis("dcn_mesh", axis) for axis in AXES},
    **{f"sa_block_{f.name}": _block(f.name) for f in fields(Blocks) if f.type == "int"},
    "sa_use_fused_bwd_kernel": _block("use_fused_bwd_kernel"),
    **dict.fromkeys(("int8_training", "fused_mlp", "optimize_mesh_for_tpu_v6e"), _only(False)),
    **dict.fromkeys(
        ("optimizer_memory_host_offload", "parameter_memory_host_offload"), _only(False)
    ),
    **{f"sa_{part}_layout": _only("HEAD_DIM_MINOR") for part in "qkv"},
    "quantization": _only(""),
    "opt_type": _only("adamw"),
    "gradient_accumulation_steps": _only(1),
}
