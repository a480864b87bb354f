"""Computes two versions of a program on the CPU, and compares what they give."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_COMPARE = """
import pathlib, jax, numpy as np
def values(name):
    space = {"__name__": name}
    exec(compile(pathlib.Path(name).read_text(), name, "exec"), space)
    return jax.tree.leaves(space["result"])
before, after = values("before.py"), values("after.py")
assert len(before) == len(after) > 0
for a, b in zip(before, after):
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, b.shape, a.dtype, b.dtype)
    np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=2e-5, atol=2e-5)
    assert np.abs(np.asarray(a, float)).max() > 0
"""


def same_result(folder: Path, environment: Mapping[str, str], before: str, after: str) -> None:
    """Checks that both programs, run on the CPU, end with equal values of `result`, which are not all 0."""
    __tracebackhide__ = True
    for name, text in (("before.py", before), ("after.py", after)):
        (folder / name).write_text(text)
    command = [sys.executable, "-c", _COMPARE]
    plain = {**environment, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        command, cwd=folder, env=plain, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
