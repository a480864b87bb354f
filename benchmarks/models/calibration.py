"""Models and runs from rows of measurements: their entries are MaxText's names, and prose.

A row names its model, and its flags by groups. Models are described in words where a number would not
do ("silu-gated (two input matrices)"); what the words do not say follows from the trainer's version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks.models.model import Model
from benchmarks.models.run import Run
from benchmarks.models.tables import Fields, Table, TableError, is_of_model, read_model, read_run
from benchmarks.models.weights import count_parameters

# MaxText at 76bd53b0f (December 2023), `MaxText/layers`: one norm for attention and MLP, which run side by
# side; rotated pairs of neighbours; norms of query, key and value; logits of float32 operands.
_MAXTEXT_2023: Fields = {
    "block": "parallel",
    "rope": "pairs",
    "head_norms": ["query", "key", "value"],
    "norm_after_rope": True,
    "logits_in_float32": True,
    "epsilon": 1e-6,
}
_CLOSE = 1e-3  # parameter counts in tables are rounded, or leave norms out


def from_calibration(
    row: Table,
    models: Mapping[str, Table],
    flag_groups: Mapping[str, str] | None = None,
    rows: Iterable[Table] = (),
) -> tuple[Model, Run]:
    """The model and the run that a row was measured with.

    `flag_groups` are flags by the names that rows use; `rows` those that a row may refer to ("as ...").

    Raises:
        TableError: the row is no training step, or something in it is not known.
    """
    if row.get("model") not in models:
        raise TableError(f"row {row.get('id')} has no model of {', '.join(models)}")
    described = models[row["model"]]
    configured = _configured(row, rows)
    config = dict(configured.get("config", {}))
    changes = {key: config.pop(key) for key in [*config] if is_of_model(key)}
    model = _model(row["model"], described, changes)
    for given, name in (
        ("per_device_batch", "per_device_batch_size"),
        ("sequence", "max_target_length"),
    ):
        config.pop(name, None)
        config[given] = row[given]
    for axis in [key for key in config if key.startswith(("ici_", "dcn_"))]:
        del config[axis]  # with what -1 came to, they are the row's mesh
    flags = [_flags(group, flag_groups or {}) for group in configured.get("xla_flag_groups", ())]
    run = read_run(
        {
            **config,
            **_kernel(described),
            "slice": row["topology"],
            "slices": row.get("slices", 1),
            **_meshes(row),
            "flags": [*flags, configured.get("xla_flags", "")],
        }
    )
    return model, run


def _configured(row: Table, rows: Iterable[Table]) -> Table:
    """The row that has a row's configuration and flags: itself, or the one that it refers to."""
    config = row.get("config", {})
    if not isinstance(config, str):
        return row
    other = config.removeprefix("as ")
    for candidate in rows:
        if candidate["id"] == other:
            return _configured(candidate, rows)
    raise TableError(f"row {row.get('id')} is configured as {other}, which is not among the rows")


def _meshes(row: Table) -> Fields:
    """The mesh within a slice and across slices, of a row whose mesh may count the devices of all."""
    mesh, slices = dict(row.get("mesh", {})), row.get("slices", 1)
    if "dcn_mesh" in row or slices == 1:
        return {"mesh": mesh, "dcn_mesh": row.get("dcn_mesh", {})}
    devices = row["tokens_per_step"] / row["per_device_batch"] / row["sequence"]
    if math.prod(mesh.values()) == devices:
        for axis in ("data", "fsdp"):
            if mesh.get(axis, 1) % slices == 0:
                return {"mesh": {**mesh, axis: mesh[axis] // slices}, "dcn_mesh": {axis: slices}}
    return {"mesh": mesh, "dcn_mesh": {"data": slices}}


def _flags(group: str, groups: Mapping[str, str]) -> str:
    if group not in groups:
        raise TableError(f"no group of flags is called {group!r}. Known: {', '.join(groups)}.")
    return groups[group]


def _kernel(described: Table) -> Fields:
    """Which kernel the trainer's `flash` was."""
    words = str(described.get("attention", ""))
    kernels = {"splash": "splash", "flash": "old_flash", "dot": "dot_product"}
    found = next((kernel for word, kernel in kernels.items() if word in words), None)
    return {"attention": found} if found else {}


def _model(name: str, described: Table, changes: Table) -> Model:
    entries: Fields = {}
    for key, value in described.items():
        entries.update(_WORDS[key](value) if key in _WORDS else {key: value})
    if "76bd53b0f" in str(described.get("source")):
        entries = {**entries, **_MAXTEXT_2023}
    elif name.startswith(("llama3.1", "llama3.3")):  # MaxText chooses rope's form by the name
        entries["rope"] = "shifts"
    model = read_model({**entries, **changes})
    expected = described.get("params")
    if expected and abs(count_parameters(model) / expected - 1) > _CLOSE:
        raise TableError(
            f"{name} would have {count_parameters(model):,} parameters, and the table says {expected:,}"
        )
    return model


def _activation(words: str) -> Fields:
    found = re.search(r"silu|gelu|relu", words)
    if not found:
        raise TableError(f"mlp_activation = {words!r} names none of silu, gelu, relu")
    return {"activation": found.group(), "gated": "gated" in words or "two" in words}


def _norm(words: str) -> Fields:
    epsilon = re.search(r"epsilon\s*([\d.]+e?-?\d*)", words)
    kind: Fields = {"norm": "rms" if "rms" in words.lower() else "layer"}
    return {**kind, "epsilon": float(epsilon.group(1))} if epsilon else kind


def _rope(words: str | bool) -> Fields:
    if str(words).lower().startswith(("no", "false")):
        return {"rope": "none"}
    scale = re.search(r"timescale\s*([\d_.e]+)", str(words))
    return {"rope_timescale": float(scale.group(1))} if scale else {}


def _must(pattern: str) -> Callable[[Any], Fields]:
    """Words that must say what is built anyway."""

    def read(words: Any) -> Fields:
        if not re.search(pattern, str(words)):
            raise TableError(f"{words!r} is not what the training step does: {pattern}")
        return {}

    return read


def _ignored(_: Any) -> Fields:
    return {}


_WORDS: dict[str, Callable[[Any], Fields]] = {
    "mlp_activation": _activation,
    "norm": _norm,
    "rope": _rope,
    "dropout": _must(r"False|0"),
    "causal": _must("True"),
    "optimizer": _must("adamw"),
    "gradient_clipping": _must(r"1\.0|1"),
    "scan_layers": _must("True"),
    **dict.fromkeys(("params", "logits", "remat", "attention", "logical_axes", "source"), _ignored),
}
