"""A language model of flax with optax's AdamW, its state in one tree; large tables go to VMEM in slices."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState


class Model(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.Embed(16384, 512)(tokens)
        x = x + nn.Dense(512)(nn.gelu(nn.Dense(2048)(nn.LayerNorm()(x))))
        return nn.Dense(16384)(x)


model = Model()
tokens = jax.ShapeDtypeStruct((8, 256), jnp.int32)


def create(key):
    params = model.init(key, jnp.zeros(tokens.shape, tokens.dtype))["params"]
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4))
    return TrainState.create(apply_fn=model.apply, params=params, tx=tx)


def train(state, tokens, labels):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, tokens)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


step = jax.jit(train)
args = (jax.eval_shape(create, jax.random.key(0)), tokens, tokens)
