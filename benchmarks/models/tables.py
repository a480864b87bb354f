"""Models and runs from tables: TOML, JSON, and the rows of `calibration.json`."""

from __future__ import annotations
from benchmarks.models.model import Model
from benchmarks.models.run import Run, Blocks


class TableError(ValueError):
    """A table that makes no model or run."""

def read_table(path): ...

SEQ={"llama3.1-8b":dict(rope="shifts",rope_timescale=5e5), "maxtext-32b-2023":dict(block="parallel",rope="pairs",head_norms=("query","key","value"),norm_after_rope=True,logits_in_float32=True,epsilon=1e-6,activation="relu",gated=False)}

def from_calibration(row, models, groups, rows=()):
    m=models[row["model"]]
    model=Model(**{k:m[k] for k in("embed","layers","query_heads","kv_heads","head_dim","mlp","vocab","tied_embedding")}, **SEQ[row["model"]])
    cfg=row["config"]
    if isinstance(cfg,str):
        cfg=next(r for r in rows if r["id"]==cfg.removeprefix("as "))["config"]
    flags=[groups[g] for g in row.get("xla_flag_groups",())]+[row.get("xla_flags","")]
    names=("decoder_layer_input","out_proj","query_proj","key_proj","value_proj")
    run=Run(slice=row["topology"],per_device_batch=row["per_device_batch"],sequence=row["sequence"],mesh=row["mesh"],remat=cfg["remat_policy"],tensors={k:cfg[k] for k in names if k in cfg},
     attention="flash" if "2023" in row["model"] else "splash",
     blocks=Blocks(**{k.removeprefix("sa_block_").removeprefix("sa_"):v for k,v in cfg.items() if k.startswith("sa_")}),iota_embed=cfg["use_iota_embed"],flags=tuple(flags))
    return model,run
