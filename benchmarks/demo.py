"""Wall time of the demo, warm, against the same script on JAX's CPU backend with its compilations cached.

python benchmarks/demo.py
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import vtpu

SCRIPT = str(Path(vtpu.__file__).parent / "demo" / "train.py")


def wall_s(command, environment, folder):
    began = time.perf_counter()
    subprocess.run(
        command, env={**os.environ, **environment}, cwd=folder, check=True, capture_output=True
    )
    return time.perf_counter() - began


def main():
    with tempfile.TemporaryDirectory() as folder:
        cached = {
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(Path(folder) / "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        own = {"VTPU_CACHE_DIR": str(Path(folder) / "vtpu")}
        demo = [sys.executable, "-m", "vtpu", "demo"]
        cold = wall_s(demo, own, folder)
        wall_s([sys.executable, SCRIPT], cached, folder)
        ours, theirs = [], []
        for _ in range(5):  # in turn, so that noise of the machine meets both
            ours.append(wall_s(demo, own, folder))
            theirs.append(wall_s([sys.executable, SCRIPT], cached, folder))
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print(f"vtpu demo, first run: {cold:.1f} s")
    print(f"vtpu demo, warm: {ours:.2f} s; the same script on CPU, warm: {theirs:.2f} s")
    print(f"ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
