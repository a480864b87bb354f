"""A loader in a thread keeps two batches on the device ahead of the training loop."""

import queue
import threading

import jax
import jax.numpy as jnp
import numpy as np

BATCHES, AHEAD, SHAPE = 12, 2, (256, 512)


def load(batches):
    rng = np.random.default_rng(0)
    for _ in range(BATCHES):
        batches.put(jax.device_put(rng.normal(size=SHAPE).astype(np.float32)))
    batches.put(None)


@jax.jit
def step(total, batch):
    return total + jnp.tanh(batch).sum()


batches = queue.Queue(maxsize=AHEAD)
thread = threading.Thread(target=load, args=(batches,))
thread.start()
total, count = jnp.float32(0), 0
while (batch := batches.get()) is not None:
    total = step(total, batch)
    count += 1
thread.join()
print("trained on", count, "batches", total.block_until_ready().shape)
