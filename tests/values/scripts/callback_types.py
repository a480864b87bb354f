"""Values of every type go to a host function and come back as they are."""

import jax
import jax.numpy as jnp
import numpy as np

TYPES = """
bool int4 int8 int16 int32 uint4 uint8 uint16 uint32 float16 bfloat16 float32 complex64
float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz
""".split()


@jax.jit
def reverse(x):
    return jax.pure_callback(lambda v: np.asarray(v)[::-1].copy(), x, x)


for name in TYPES:
    result = reverse(jnp.asarray([0, 1, 1, 2, 3, 5]).astype(name))
    print(name, np.asarray(result).astype(np.complex64).real)
