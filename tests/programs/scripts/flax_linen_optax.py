"""A Flax Linen language model with a learning-rate schedule, in a `TrainState`."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.training.train_state import TrainState

STEPS, BATCH, LENGTH, VOCABULARY, WIDTH = 4, 8, 64, 512, 128


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(x[..., 0])
        x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x), mask=mask)
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x))))


class LanguageModel(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(VOCABULARY, WIDTH)(tokens)
        for _ in range(2):
            x = Block()(x)
        return nn.Dense(VOCABULARY)(x)


@partial(jax.jit, donate_argnums=0)
def train_step(state, tokens):
    def loss_of(params):
        logits = state.apply_fn(params, tokens[:, :-1])
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    loss, grads = jax.value_and_grad(loss_of)(state.params)
    return state.apply_gradients(grads=grads), loss


model = LanguageModel()
params = jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, LENGTH), jnp.int32))
schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 10, 100)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))
state = TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)
rng = np.random.default_rng(0)
for _ in range(STEPS):
    tokens = rng.integers(0, VOCABULARY, (BATCH, LENGTH + 1), np.int32)
    state, loss = train_step(state, tokens)
print("leaves", len(jax.tree.leaves(state.params)), "loss", loss.dtype, loss.shape)
