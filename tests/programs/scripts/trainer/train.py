"""Trains the model: `python -m trainer.train --steps 3 --width 256`."""

import argparse
import sys

import jax.numpy as jnp

from trainer import model

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("-m", "--message", default="")
options = parser.parse_args()

w = model.init(options.width)
x = jnp.ones((32, options.width))
for _ in range(options.steps):
    w = model.step(w, x)
print(w.shape, options.message, __name__, sys.argv[1:])
