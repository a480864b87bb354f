"""Three steps inside `jax.profiler.trace`, with annotations, as one does to look at them later."""

from pathlib import Path

import jax
import jax.numpy as jnp


@jax.jit
def step(x, w):
    with jax.named_scope("layer"):
        return jnp.tanh(x @ w)


x, w = jnp.ones((256, 256)), jnp.ones((256, 256))
with jax.profiler.trace("profile"):
    for number in range(3):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            x = step(x, w)
    x.block_until_ready()
files = [path for path in Path("profile").rglob("*") if path.is_file()]
print("traced", any(path.name.endswith(".xplane.pb") for path in files))
jax.profiler.save_device_memory_profile("memory.prof")
print("memory profile", Path("memory.prof").stat().st_size > 0)
