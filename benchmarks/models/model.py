"""What is trained: the shape of a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A decoder, dense or a mixture of experts.

    `activation` works on one matrix, or, `gated`, on one of two whose products are multiplied.
    `rope` is how the two numbers that are rotated together are found: in the two `halves` of a head, in
    `pairs` of neighbours, or in pairs by `shifts` of the head by one (MaxText's form for Llama 3.1).
    `positions` is the number of learned positions. `block` is `sequential` (attention, then MLP, a norm
    before each) or `parallel` (both of one norm); with `post_norms` the results are normed too.
    `head_norms` are the projections that are normed per head, before or after they are rotated.
    Layer i sees the last `windows[i % len(windows)]` tokens, all if 0. `attention_cap` and `logits_cap`
    bound scores by a tanh, unless 0. `moments_dtype` is the optimizer's.

    With `kv_rank`, keys and values are projected from so many shared numbers (latent attention), queries
    from `query_rank` if that is not 0; a head then has `head_dim` numbers without position and
    `rope_dim` with, and values of `value_dim`.

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
    positions: int = 0
    biases: bool = False
    block: Literal["sequential", "parallel"] = "sequential"
    post_norms: bool = False
    fused_qkv: bool = False
    head_norms: tuple[Literal["query", "key", "value"], ...] = ()
    norm_after_rope: bool = False
    windows: tuple[int, ...] = (0,)
    attention_cap: float = 0.0
    logits_cap: float = 0.0
    logits_in_float32: bool = False
    kv_rank: int = 0
    query_rank: int = 0
    rope_dim: int = 0
    value_dim: int = 0
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
        for is_wrong, why in self._doubts():
            if is_wrong:
                raise ValueError(why)

    def _doubts(self) -> Iterator[tuple[bool, str]]:
        sizes = (
            self.embed,
            self.layers,
            self.query_heads,
            self.kv_heads,
            self.head_dim,
            self.vocab,
        )
        yield min(sizes) < 1, "embed, layers, heads, head_dim and vocab are at least 1"
        yield (
            self.query_heads % max(self.kv_heads, 1) != 0,
            f"query_heads = {self.query_heads} is no multiple of kv_heads = {self.kv_heads}",
        )
        yield (
            self.rope != "none" and self.rotated_dim % 2 != 0,
            f"rope rotates pairs, and {self.rotated_dim} is odd",
        )
        yield (
            bool(self.kv_rank) != bool(self.rope_dim and self.value_dim),
            "kv_rank, rope_dim and value_dim come together",
        )
        yield (
            self.fused_qkv and (self.query_heads != self.kv_heads or bool(self.kv_rank)),
            "fused_qkv needs as many kv_heads as query_heads, and no kv_rank",
        )
        yield (
            bool(self.experts) and not 0 < self.experts_per_token <= self.experts,
            f"of experts = {self.experts} a token takes experts_per_token = {self.experts_per_token}",
        )
        yield (
            not self.experts
            and any((self.experts_per_token, self.shared_experts, self.dense_layers)),
            "experts_per_token, shared_experts and dense_layers need experts",
        )
        yield (
            not 0 <= self.dense_layers <= self.layers,
            f"dense_layers = {self.dense_layers} are the first of layers = {self.layers}",
        )
        cycle = len(self.windows)
        yield (
            not cycle or any(count % max(cycle, 1) for count in (self.layers, self.dense_layers)),
            f"layers come in cycles of windows, and {self.layers} are no multiple of {cycle}",
        )

    @property
    def width_of_expert(self) -> int:
        """The MLP width of one expert."""
        return self.expert_mlp or self.mlp

    @property
    def rotated_dim(self) -> int:
        """The numbers of a head that rope rotates."""
        return self.rope_dim if self.kv_rank else self.head_dim
