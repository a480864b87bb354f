"""Wall time of `vtpu --help`, which imports no jax.

python benchmarks/startup.py
"""

import statistics
import subprocess
import sys
import time


def main():
    times = []
    for _ in range(15):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "vtpu", "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    print(f"vtpu --help: {statistics.median(times):.2f} s")


if __name__ == "__main__":
    main()
