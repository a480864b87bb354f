"""Each device calls the host by itself, in loops of its own."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()[:8]), ("device",))


def double(value):
    return np.asarray(value) * 2


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=P("device"), out_specs=P("device"), check_vma=False)
def run(x):
    def body(_, x):
        return jax.pure_callback(double, jax.ShapeDtypeStruct(x.shape, x.dtype), x) - 1

    return jax.lax.fori_loop(0, 10, body, x)


for number in range(5):
    print(np.asarray(run(jnp.arange(16.0) + number)))
print(np.asarray(jax.pmap(lambda x: jax.pure_callback(double, x, x) + 1)(np.arange(8.0))))
