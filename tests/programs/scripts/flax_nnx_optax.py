"""A Flax NNX classifier with batch norm and dropout, trained by Optax through `nnx.jit`."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

STEPS, BATCH, CLASSES = 4, 32, 10


class Classifier(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.conv = nnx.Conv(1, 16, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)
        self.out = nnx.Linear(16 * 14 * 14, CLASSES, rngs=rngs)

    def __call__(self, images):
        x = nnx.relu(self.norm(self.conv(images)))
        x = nnx.avg_pool(x, (2, 2), (2, 2))
        return self.out(self.dropout(x.reshape(x.shape[0], -1)))


@nnx.jit
def train_step(model, optimizer, images, labels):
    def loss_of(model):
        logits = model(images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, grads = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, grads)
    return loss


model = Classifier(nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
rng = np.random.default_rng(0)
for _ in range(STEPS):
    images = rng.normal(size=(BATCH, 28, 28, 1)).astype(np.float32)
    labels = rng.integers(0, CLASSES, BATCH)
    loss = train_step(model, optimizer, images, labels)
count = sum(p.size for p in jax.tree.leaves(nnx.state(model, nnx.Param)))
print("parameters", count, "loss shape", jnp.shape(loss), "updates", optimizer.step[...].shape)
