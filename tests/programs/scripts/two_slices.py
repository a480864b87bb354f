"""Data parallel over two slices, model parallel within each, as multi-slice training does."""

import jax
import jax.numpy as jnp
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

slices = sorted({device.slice_index for device in jax.devices()})
per_slice = jax.device_count() // len(slices)
devices = mesh_utils.create_hybrid_device_mesh(
    (1, per_slice), (len(slices), 1), devices=jax.devices()
)
mesh = Mesh(devices, ("data", "model"))


@jax.jit
def step(w, x):
    grads = jax.grad(lambda w: jnp.mean(jnp.square(x @ w)))(w)
    return w - 0.1 * grads


w = jnp.ones((1024, 1024), device=NamedSharding(mesh, P(None, "model")))
x = jnp.ones((64, 1024), device=NamedSharding(mesh, P("data", None)))
for _ in range(2):
    w = step(w, x)
print("slices", slices, "devices per slice", per_slice)
print("mesh rows are slices", [{d.slice_index for d in row} for row in mesh.devices])
print("shard of w", w.addressable_shards[0].data.shape, "of x", x.addressable_shards[0].data.shape)
