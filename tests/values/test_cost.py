"""What a part of a program costs, before it runs."""

from __future__ import annotations

import json
from pathlib import Path

from running import Bench

SCRIPT = Path(__file__).parent / "properties" / "costs.py"


def test_costs_are_those_of_what_is_left(bench: Bench) -> None:
    ended = bench.python(str(SCRIPT), JAX_PLATFORMS="cpu")
    assert ended.exit_code == 0, ended.stderr[-2000:]
    costs = json.loads(ended.stdout)
    assert costs["matmul"] == [2 * 4 * 8 * 16, True, [0, 1], [0]]
    assert costs["composite"] == costs["matmul"]
    flops, is_certain, parameters, outputs = costs["loop"]
    assert (is_certain, parameters, outputs) == (True, [0, 1], [0])
    assert 10 * 2 * 8**3 <= flops < 11 * 2 * 8**3  # ten multiplications and a counter
    assert costs["beside the loop"] == [4, True, [2], [2]]  # the addition, and its constant spread
    assert costs["without a count"][1] is False
