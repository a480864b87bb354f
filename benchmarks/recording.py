"""Memory per event at a million events, kept in the process (nothing is written down).

python benchmarks/recording.py
"""

import os
import subprocess
import sys

CHILD = """
import resource
import jax, numpy as np

f = jax.jit(lambda x: x + 1)
x = jax.device_put(np.ones((8, 128), np.float32))
f(x)
from vtpu.device import _core
from vtpu.device.handlers import Handlers

kept = []
Handlers.flush = lambda self: kept.append(_core.drain_events())  # keep every event
x = f(f(x))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
calls = 1_000_000 // 3
for _ in range(calls):
    x = f(x)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kept.append(_core.drain_events())
events = sum(map(len, kept)) / _core.event_bytes()
print(f"{events:,.0f} events, {(after - before) * 1024 / events:.0f} bytes each")
"""


def main():
    environment = {"JAX_PLATFORMS": "vtpu", "VTPU_ON": "v5e-1", "VTPU_REPORT": "off"}
    environment["VTPU_VALUES"] = "zeros"  # whose memory is another matter
    subprocess.run([sys.executable, "-c", CHILD], env={**os.environ, **environment}, check=True)


if __name__ == "__main__":
    main()
