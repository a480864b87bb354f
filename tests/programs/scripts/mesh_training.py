"""Data and tensor parallel training over every device of the slice, each host with its own data.

Shapes: B batch over `data`, D width, F hidden over `model`.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.mesh_utils import create_device_mesh
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, HIDDEN, ROWS_PER_DEVICE, STEPS = 512, 2048, 16, 3

row = max(device.coords[0] for device in jax.devices()) + 1  # chips along x share a layer
mesh = Mesh(create_device_mesh((jax.device_count() // row, row)), ("data", "model"))
rows = NamedSharding(mesh, P("data", None))
shardings = {
    "up": NamedSharding(mesh, P(None, "model")),
    "down": NamedSharding(mesh, P("model", None)),
}


def init():
    return {"up": jnp.ones((WIDTH, HIDDEN)), "down": jnp.ones((HIDDEN, WIDTH))}


@partial(jax.jit, donate_argnums=0, out_shardings=(shardings, None))
def step(params, x):
    def loss(params):
        return jnp.mean(jnp.square(jax.nn.gelu(x @ params["up"]) @ params["down"]))

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


rng = np.random.default_rng(jax.process_index())
params = jax.jit(init, out_shardings=shardings)()
shape = (mesh.shape["data"] * ROWS_PER_DEVICE, WIDTH)
local_rows = rows.addressable_devices_indices_map(shape)
count = len({index[0].start for index in local_rows.values()}) * ROWS_PER_DEVICE
for _ in range(STEPS):
    batch = rng.normal(size=(count, WIDTH)).astype(np.float32)
    x = jax.make_array_from_process_local_data(rows, batch, shape)
    params, value = step(params, x)

print("devices", jax.device_count(), "here", jax.local_device_count())
print("process", jax.process_index(), "of", jax.process_count())
print("first device here", jax.local_devices()[0].coords)
print("batch", x.shape, "shards here", len(x.addressable_shards), x.addressable_shards[0].data.shape)
print("up", params["up"].addressable_shards[0].data.shape, "loss replicated", value.is_fully_replicated)
