"""Policy gradients with a clipped ratio on a small game played within a scan."""

import functools

import jax
import jax.numpy as jnp

GAMES, MOVES = 32, 12


def play(params, key):
    """Walk on a line: reach +3 soon. Returns observations, actions, log-probabilities, rewards."""

    def move(carry, key):
        place = carry
        seen = jnp.stack([place, place**2, jnp.ones_like(place)], -1)
        logits = seen @ params
        action = jax.random.categorical(key, logits)
        logp = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
        place = jnp.clip(place + 2 * action - 1, -4.0, 4.0)
        return place, (seen, action, logp, (place >= 3).astype(jnp.float32))

    _, out = jax.lax.scan(move, jnp.zeros(GAMES), jax.random.split(key, MOVES))
    return out


def objective(params, seen, action, logp, advantage):
    now = jnp.take_along_axis(jax.nn.log_softmax(seen @ params), action[..., None], -1)[..., 0]
    ratio = jnp.exp(now - logp)
    clipped = jnp.clip(ratio, 0.8, 1.2)
    return -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))


@functools.partial(jax.jit, donate_argnums=0)
def improve(params, key):
    seen, action, logp, reward = play(params, key)
    value = jnp.cumsum(reward[::-1], 0)[::-1]
    advantage = (value - value.mean()) / (value.std() + 1e-6)

    def epoch(params, _):
        grads = jax.grad(objective)(params, seen, action, logp, advantage)
        return params - 0.5 * grads, None

    params, _ = jax.lax.scan(epoch, params, None, 4)
    return params, reward.sum(0).mean()


params, key = jnp.zeros((3, 2)), jax.random.key(0)
for number in range(12):
    key, now = jax.random.split(key)
    params, score = improve(params, now)
    print(number, f"{float(score):.4f}")
