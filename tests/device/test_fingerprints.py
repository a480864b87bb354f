"""What the host sends has a fingerprint in the recording: the same contents have the same one."""

from __future__ import annotations

from running import Bench
from vtpu.recording.events import EventKind, of_kind

SENT = """
import jax, numpy as np
a = np.arange(600_000, dtype=np.float32).reshape(600, 1000)  # larger than what is looked at whole
b = a.copy()
b[-1, -1] = 0
for x in (a, a.copy(), b, a[0], a[:2], np.asfortranarray(a), np.float32(1), np.zeros((0, 3))):
    jax.device_put(x)
"""


def test_what_is_sent_has_a_fingerprint_of_its_contents(bench: Bench) -> None:
    run = bench.run(SENT, on="v5e:1x1")

    run.succeeded()
    prints = of_kind(run.recording.events, EventKind.HOST_TO_DEVICE)["address"]
    whole, again, changed, row, two_rows, other_order, number, nothing = prints.tolist()
    assert whole == again
    assert len({whole, changed, row, two_rows, number}) == 5
    assert min(whole, changed, row, two_rows, number) > 0
    assert other_order == nothing == -1


def test_values_that_are_not_kept_have_one_too(bench: Bench) -> None:
    run = bench.run(SENT, on="v5e:1x1", VTPU_VALUES="zeros")

    prints = of_kind(run.recording.events, EventKind.HOST_TO_DEVICE)["address"]
    assert prints[0] == prints[1] != prints[2]
