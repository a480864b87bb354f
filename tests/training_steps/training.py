"""Small models and runs, and a program that trains one on the CPU."""

from __future__ import annotations

from typing import Any

MODEL: dict[str, Any] = {
    "embed": 64,
    "layers": 4,
    "query_heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "mlp": 128,
    "vocab": 256,
}
EXPERTS: dict[str, Any] = {
    **MODEL,
    "experts": 4,
    "experts_per_token": 2,
    "expert_mlp": 64,
    "shared_experts": 1,
    "dense_layers": 1,
}
MAXTEXT_2023: dict[str, Any] = {
    **MODEL,
    "block": "parallel",
    "rope": "pairs",
    "head_norms": ["query", "key", "value"],
    "norm_after_rope": True,
    "activation": "relu",
    "gated": False,
    "tied_embedding": True,
    "logits_in_float32": True,
}
GPT3: dict[str, Any] = {
    **MODEL,
    "kv_heads": 4,
    "fused_qkv": True,
    "norm": "layer",
    "biases": True,
    "rope": "none",
    "positions": 64,
    "activation": "gelu",
    "gated": False,
    "tied_embedding": True,
}
GEMMA2: dict[str, Any] = {
    **MODEL,
    "windows": [8, 0],
    "post_norms": True,
    "attention_cap": 50.0,
    "logits_cap": 30.0,
    "activation": "gelu",
    "tied_embedding": True,
}
LATENT: dict[str, Any] = {
    **MODEL,
    "kv_heads": 4,
    "kv_rank": 32,
    "query_rank": 24,
    "rope_dim": 8,
    "value_dim": 12,
}
RUN: dict[str, Any] = {
    "slice": "v5e-1",
    "per_device_batch": 2,
    "sequence": 32,
    "attention": "dot_product",
}
TRAIN = """
import json, sys
sys.path.append(sys.argv[1])
import jax, jax.numpy as jnp
from benchmarks.models.sharding import one_device_mesh
from benchmarks.models.step import build
from benchmarks.models.tables import read_model, read_run

def losses(model, run):
    device = jax.devices("cpu")[0]
    run = read_run(run)
    program = build(read_model(model), run, [device], mesh=one_device_mesh(device))
    shape = (int(run.per_device_batch), run.sequence)
    tokens = jax.random.randint(jax.random.key(1), shape, 0, model["vocab"])
    ones = jnp.ones(shape, jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(shape[1]), shape)
    batch = {"inputs": tokens, "targets": jnp.roll(tokens, -1, 1), "positions": positions,
             "segments": ones, "target_segments": ones}
    step, state, found = program.jitted({}), program.initial(), []
    for _ in range(3):
        state, metrics = step(state, batch)
        found.append(float(metrics["loss"]))
    return found

json.dump([losses(*pair) for pair in json.load(sys.stdin)], sys.stdout)
"""
