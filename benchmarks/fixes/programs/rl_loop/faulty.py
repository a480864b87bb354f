"""Reinforcement learning: a policy is played in many simulated worlds on the chip, then improved.

Shapes: W worlds, T moves, S numbers of a world's state, A actions.
"""

from functools import partial

import jax
import jax.numpy as jnp

STATE, HIDDEN, ACTIONS = 32, 1024, 8
WORLDS, MOVES, STEPS, EVERY = 16384, 32, 12, 3


def init(key):
    keys = jax.random.split(key, 3)
    shapes = {"enter": (STATE, HIDDEN), "hidden": (HIDDEN, HIDDEN), "leave": (HIDDEN, ACTIONS + 1)}
    return {
        name: jax.random.normal(k, shape) * shape[0] ** -0.5
        for k, (name, shape) in zip(keys, shapes.items())
    }


def judge(params, states):
    """Logits of actions and the value of states[..., S]."""
    hidden = jax.nn.relu(states.astype(jnp.bfloat16) @ params["enter"].astype(jnp.bfloat16))
    hidden = jax.nn.relu(hidden @ params["hidden"].astype(jnp.bfloat16))
    out = (hidden @ params["leave"].astype(jnp.bfloat16)).astype(jnp.float32)
    return out[..., :ACTIONS], out[..., ACTIONS]


def move(worlds, actions):
    """The worlds after the actions, and what these earned."""
    push = jnp.sin(actions[:, None] + jnp.arange(STATE))
    worlds = 0.99 * worlds + 0.1 * push
    return worlds, -jnp.abs(worlds).mean(axis=-1)


@jax.jit
def play(params, worlds, key):
    """Worlds after T moves, and the states[T, W, S], actions[T, W] and rewards[T, W] on the way."""

    def one(worlds, key):
        actions = jax.random.categorical(key, judge(params, worlds)[0])
        after, rewards = move(worlds, actions)
        return after, (worlds, actions, rewards)

    return jax.lax.scan(one, worlds, jax.random.split(key, MOVES))


def loss_of(params, states, actions, returns, curiosity):
    logits, values = judge(params, states)
    shares = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(shares, actions[..., None], axis=-1)[..., 0]
    gained = jax.lax.stop_gradient(returns - values)
    surprise = -(jnp.exp(shares) * shares).sum(axis=-1)
    return jnp.mean(jnp.square(returns - values) - gained * chosen - curiosity * surprise)


@partial(jax.jit, static_argnames="curiosity", donate_argnames=("params", "momentum"))
def step(params, momentum, states, actions, returns, curiosity):
    loss, grads = jax.value_and_grad(loss_of)(params, states, actions, returns, curiosity)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 1e-3 * m, params, momentum), momentum, loss


def discounted(rewards):
    """The sum of all rewards that follow, later ones less."""
    following, returns = jnp.zeros(WORLDS), []
    for reward in rewards[::-1]:
        following = reward + 0.99 * following
        returns.append(following)
    return jnp.stack(returns[::-1])


@jax.jit
def init_state(key):
    params = init(key)
    return params, jax.tree.map(jnp.zeros_like, params), jax.random.normal(key, (WORLDS, STATE))


def main():
    params, momentum, worlds = init_state(jax.random.key(0))
    history = []
    for number in range(STEPS):
        worlds, (states, actions, rewards) = play(params, worlds, jax.random.key(number))
        returns = discounted(rewards)
        curiosity = 0.1 * 0.5 ** (number // EVERY)
        params, momentum, loss = step(params, momentum, states, actions, returns, curiosity=curiosity)
        history.append((states, rewards))
        print(f"step {number}: loss {float(loss):.3f}, reward {float(rewards.mean()):.3f}")
    print(f"{len(history)} steps")


if __name__ == "__main__":
    main()
