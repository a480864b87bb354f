"""What replaying a compiler's packing of a large program costs, by algorithm.

    python benchmarks/packing.py

A trace in the form of a training step: 15,000 buffers, a forward pass that keeps every third for the
backward pass, loops whose buffers share; and an exact packing of a hard window whose optimum is known.
"""

import random
import sys
import time
from pathlib import Path

from vtpu.hbm.packing import (
    Algorithm,
    Event,
    Trace,
    aligned_bound,
    pack,
    pack_exactly,
    peak_window,
    violations,
)
from vtpu.units import GIB, KIB, format_bytes, format_seconds

BUFFERS = 15_000


def training_step(buffers: int, seed: int = 0) -> Trace:
    rng = random.Random(seed)
    events: list[Event] = []
    kept: list[int] = []
    young: list[int] = []
    for buffer in range(buffers):
        size = int(512 * 2 ** rng.uniform(0, 16))
        shares = young[-1] if young and rng.random() < 0.05 else None
        made = Event.allocate(buffer, size)
        events.append(made if shares is None else Event.share(buffer, size, shares))
        keeps = buffer < buffers // 2 and buffer % 3 == 0
        (kept if keeps else young).append(buffer)
        while len(young) > 8:
            events.append(Event.free(young.pop(rng.randrange(4))))
        if buffer >= buffers // 2 and kept and buffer % 3 == 0:
            events.append(Event.free(kept.pop()))
    events += [Event.free(buffer) for buffer in (*young, *kept)]
    return Trace(tuple(events), 16 * KIB)


def timed(work):
    began = time.perf_counter()
    result = work()
    return result, format_seconds(time.perf_counter() - began)


def main() -> None:
    trace = training_step(BUFFERS)
    bound, took = timed(lambda: aligned_bound(trace))
    print(f"{BUFFERS:,} buffers; lower bound {format_bytes(bound.size)} in {took}")
    for algorithm in Algorithm:
        result, took = timed(lambda a=algorithm: pack(trace, a, limit=1024 * GIB))
        above = result.heap_size / bound.size - 1
        print(f"{algorithm}: {took}, {above:.1%} above the bound")
        assert not violations(trace, result)
    merged = pack(trace, Algorithm.FAST_MERGE)
    _, took = timed(lambda: violations(trace, merged))
    print(f"proof that it is legal: {took}")
    window, took = timed(lambda: peak_window(trace, merged))
    print(f"window of the peak: {len(window.trace.events) // 2} buffers in {took}")
    exact, took = timed(lambda: pack_exactly(window.trace))
    print(f"its exact packing: {took}, {format_bytes(exact.packing.heap_size)}, "
          f"proven bound {format_bytes(exact.bound)}")  # fmt: skip
    hard_windows()


def hard_windows() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from hbm.instances import hard_instance, read_csv  # noqa: PLC0415  - needs the path above

    for pieces in (20, 40, 80):
        instance = hard_instance(0, pieces)
        trace = read_csv(instance.to_csv())
        exact, took = timed(lambda t=trace: pack_exactly(t))
        print(f"{len(instance.buffers)} buffers cut from a full rectangle: {took}, "
              f"{exact.packing.heap_size / instance.capacity - 1:.1%} above the optimum; the default "
              f"{pack(trace).heap_size / instance.capacity - 1:.1%}")  # fmt: skip


if __name__ == "__main__":
    main()
