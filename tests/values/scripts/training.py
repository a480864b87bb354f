"""A classifier on two clusters of points: the loss falls, and the accuracy is printed."""

import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
labels = rng.integers(0, 2, 512)
points = (rng.normal(size=(512, 16)) + 1.5 * labels[:, None]).astype(np.float32)


def forward(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def loss(params, x, y):
    return -jnp.mean(jax.nn.log_softmax(forward(params, x))[jnp.arange(len(y)), y])


@jax.jit
def step(number, params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    rate = 0.5 / (1 + number)
    return number + 1, jax.tree.map(lambda p, g: p - rate * g, params, grads), value, rate


keys = jax.random.split(jax.random.key(1), 3)
sizes = [(16, 32), (32, 32), (32, 2)]
params = [(jax.random.normal(k, s) * s[0] ** -0.5, jnp.zeros(s[1])) for k, s in zip(keys, sizes)]
number, seen = jnp.int32(0), []
for i in range(20):
    at = slice(i % 4 * 128, i % 4 * 128 + 128)
    number, params, value, rate = step(number, params, points[at], labels[at])
    if i % 5 == 0:
        seen.append(float(value))
        print(int(number), f"{float(value):.6f} {float(rate):.6f}")
assert seen == sorted(seen, reverse=True), "the loss does not fall"
accuracy = jnp.mean(jnp.argmax(forward(params, points), -1) == labels)
print(f"accuracy {accuracy:.4f}")
