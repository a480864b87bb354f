"""Checks functions of a program for this process's slice and prints what each one needs.

`python check_case.py PROG NAME...` prints a line of JSON per name; names as in `compile_case.py`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax

import vtpu
from compile_case import find, load
from vtpu.checks.check import Check


def main(path: str, *names: str) -> None:
    assert jax.default_backend() == "tpu"  # from here on the slice is attached
    program = load(path)
    for name in names:
        function, arguments = find(program, name)
        print(json.dumps(describe(vtpu.check(function, *arguments))), flush=True)


def describe(found: Check) -> dict[str, Any]:
    """The verdict, and the sums of what it rests on."""
    hbm = found.usage.hbm if found.usage else None
    stats = found.report.memory.stats if found.report.memory else None
    return {
        "fits": found.fits,
        "error": found.error,
        "need_bytes": found.need_bytes,
        "by_kind": {str(kind): size for kind, size in hbm.by_kind.items()} if hbm else {},
        "at_peak_bytes": sum(item.bytes for item in hbm.at_peak()) if hbm else 0,
        "free_at_peak_bytes": hbm.free_at_peak_bytes if hbm else 0,
        "stats": [stats.argument_bytes, stats.output_bytes, stats.alias_bytes] if stats else None,
        "largest": [str(item.shape).partition("{")[0] for item in hbm.at_peak()[:6]] if hbm else [],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
