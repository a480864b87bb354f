"""`shard_map` over every device: a ring of `ppermute`, a `psum`, an `all_gather`, by hand."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("ring",))


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(P("ring", None), P(None, None)), out_specs=P("ring", None))
def matmul_in_ring(x, w):
    size = jax.lax.axis_size("ring")
    passed_on = [(i, (i + 1) % size) for i in range(size)]

    def turn(_, carry):
        block, total = carry
        return jax.lax.ppermute(block, "ring", passed_on), total + block @ w

    _, total = jax.lax.fori_loop(0, size, turn, (x, jnp.zeros_like(x)))
    return total / jax.lax.psum(jnp.float32(1), "ring")


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=P("ring", None), out_specs=P(), check_vma=False)
def gathered(x):
    return jax.lax.all_gather(x, "ring", tiled=True)


rows = jax.NamedSharding(mesh, P("ring", None))
x = jnp.ones((8 * jax.device_count(), 256), device=rows)
w = jnp.ones((256, 256), device=jax.NamedSharding(mesh, P()))
y = matmul_in_ring(x, w)
whole = gathered(y)
print("sharded", y.shape, y.sharding.spec, y.addressable_shards[0].data.shape)
print("whole", whole.shape, whole.is_fully_replicated, len(whole.addressable_shards))
