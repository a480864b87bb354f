"""Samples tokens until one of them ends the text."""

import jax
import jax.numpy as jnp

END, VOCABULARY = 7, 16
table = jax.random.normal(jax.random.key(0), (VOCABULARY, VOCABULARY))


@jax.jit
def sample(key, token):
    key, now = jax.random.split(key)
    return key, jax.random.categorical(now, table[token])


key, token, text = jax.random.key(42), jnp.int32(0), []
while token != END:
    key, token = sample(key, token)
    text.append(int(token))
    assert len(text) < 1000, "it never ends"
print(len(text), text)
