"""What Orbax saved in the middle of a training comes back with the trained numbers."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp


@jax.jit
def step(state):
    w = state["w"]
    return {"step": state["step"] + 1, "w": w - 0.1 * jnp.cos(w)}


state = {"step": jnp.int32(0), "w": jax.random.normal(jax.random.key(0), (4, 8))}
for _ in range(3):
    state = step(state)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder).resolve() / "saved"
    with ocp.StandardCheckpointer() as saver:
        saver.save(path, state)
        saver.wait_until_finished()
        saved = np.asarray(state["w"])
        state = step(step(state))
        restored = saver.restore(path, jax.tree.map(ocp.utils.to_shape_dtype_struct, state))
print(int(restored["step"]), int(state["step"]))
assert np.array_equal(restored["w"], saved) and saved.any()
print(saved[0].round(6))
