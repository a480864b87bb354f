"""What is trained: the shape of a decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder, dense or a mixture of experts.

    `activation` works on one matrix, or, `gated`, on one of two whose products are multiplied.
    `rope` is how the two numbers that are rotated together are found: in the two `halves` of a head, in
    `pairs` of neighbours, or in pairs by `shifts` of the head by one (MaxText's form for Llama 3.1).
    `block` is `sequential` (attention, then MLP, a norm before each) or `parallel` (both of one norm).
    `head_norms` are the projections that are normed per head, before or after they are rotated. `window` is the number of tokens that a
    sliding attention sees, all if None. `moments_dtype` is the optimizer's.

    With `experts`, each layer behind the first `dense_layers` routes every token to
    `experts_per_token` of them, each of width `expert_mlp`, and to all `shared_experts`.
    """

    embed: int
    layers: int
    query_heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    activation: Literal["silu", "gelu", "relu"] = "silu"
    gated: bool = True
    tied_embedding: bool = False
    norm: Literal["rms", "layer"] = "rms"
    epsilon: float = 1e-5
    rope: Literal["none", "halves", "pairs", "shifts"] = "halves"
    rope_timescale: float = 10_000.0
    biases: bool = False
    positions: int = 0
    block: Literal["sequential", "parallel"] = "sequential"
    head_norms: tuple[Literal["query", "key", "value"], ...] = ()
    norm_after_rope: bool = False
    window: int | None = None
    logits_in_float32: bool = False
    experts: int = 0
    experts_per_token: int = 0
    expert_mlp: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    weight_dtype: str = "float32"
    compute_dtype: str = "bfloat16"
    moments_dtype: str = "float32"

    def __post_init__(self) -> None:
        """Refuses shapes that are none.

        Raises:
            ValueError: which fields do not go together.
        """
        if self.query_heads % self.kv_heads:
            raise ValueError(
                f"query_heads = {self.query_heads} is no multiple of kv_heads = {self.kv_heads}"
            )
        if self.rope != "none" and self.head_dim % 2:
            raise ValueError(f"rope rotates pairs, and head_dim = {self.head_dim} is odd")
        if self.experts and not 0 < self.experts_per_token <= self.experts:
            raise ValueError(
                f"of experts = {self.experts} a token takes experts_per_token = {self.experts_per_token}"
            )
        if not self.experts and (self.experts_per_token or self.shared_experts or self.expert_mlp):
            raise ValueError("experts_per_token, shared_experts, expert_mlp need experts")
        if self.dense_layers > (self.layers if self.experts else 0):
            raise ValueError(
                f"dense_layers = {self.dense_layers} are the first of the layers of a model with experts"
            )

    @property
    def width_of_expert(self) -> int:
        """The MLP width of one expert."""
        return self.expert_mlp or self.mlp
