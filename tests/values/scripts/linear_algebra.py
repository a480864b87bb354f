"""Decompositions that TPUs do in their own way."""

import jax
import jax.numpy as jnp

a = jax.random.normal(jax.random.key(0), (2, 5, 5))
s = a @ a.mT + jnp.eye(5)
w, v = jnp.linalg.eigh(s)
q, r = jnp.linalg.qr(a)
u, d, vt = jnp.linalg.svd(a)
print(w.round(3), jnp.abs(v @ (w[..., None] * v.mT) - s).max() < 1e-4)
print(jnp.abs(q @ r - a).max() < 1e-4, jnp.abs((u * d[:, None]) @ vt - a).max() < 1e-4)
print(jnp.linalg.det(a).round(3), jnp.abs(jnp.linalg.inv(a) @ a - jnp.eye(5)).max() < 1e-3)
print(jnp.abs(jnp.linalg.cholesky(s) @ jnp.linalg.cholesky(s).mT - s).max() < 1e-4)
print(jax.lax.top_k(a[0, 0], 2)[1], jax.lax.approx_max_k(a[0, 1], 2)[1], jnp.argsort(a[0, 2]))
