"""Time to cost a compiled program: a training step of a decoder with its layers unrolled.

python benchmarks/clock.py [LAYERS] [MODULE.hlo.pb]

Without a file the step is compiled first (a minute; then it is cached).
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.models import compile_step, read_table

from vtpu.analysis.time.programs import machine_of_slice
from vtpu.chips import parse_slice
from vtpu.clock.program import program_time
from vtpu.reading.modules import read_wrapped_module

TABLE = Path(__file__).parent / "models" / "examples" / "llama2-7b-v5e-64.toml"
ROUNDS = 5


def main():
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    model, run = read_table(TABLE)
    if len(sys.argv) > 2:
        hlo = Path(sys.argv[2]).read_bytes()
    else:
        hlo = compile_step(replace(model, layers=layers), replace(run, scan_layers=False)).hlo
    reading, costing = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        module = read_wrapped_module(hlo)
        read = time.perf_counter()
        found = program_time(module, machine_of_slice(parse_slice(run.slice_name)))
        costing.append(time.perf_counter() - read)
        reading.append(read - began)
    print(
        f"{len(module.by_id):,} instructions: read in {median(reading):.2f} s, "
        f"costed in {median(costing):.2f} s (modelled {found.total.seconds * 1e3:.1f} ms)"
    )


main()
