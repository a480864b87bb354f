"""An Equinox MLP trained by Optax. `filter_jit` gives the model and the optimizer state away."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS, BATCH, WIDTH = 5, 128, 64


@eqx.filter_value_and_grad
def loss_of(model, x, y):
    return jnp.mean(jnp.square(jax.vmap(model)(x) - y))


@eqx.filter_jit(donate="all-except-first")
def train_step(batch, model, state):
    x, y = batch
    loss, grads = loss_of(model, x, y)
    updates, state = optimizer.update(grads, state, model)
    return eqx.apply_updates(model, updates), state, loss


optimizer = optax.sgd(1e-2, momentum=0.9)
model = eqx.nn.MLP(WIDTH, "scalar", 256, depth=2, key=jax.random.key(0))
state = optimizer.init(eqx.filter(model, eqx.is_array))
rng = np.random.default_rng(0)
for _ in range(STEPS):
    x = rng.normal(size=(BATCH, WIDTH)).astype(np.float32)
    model, state, loss = train_step((x, x.mean(axis=1)), model, state)
print("first layer", model.layers[0].weight.shape, "loss", float(loss))
