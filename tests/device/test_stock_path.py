"""A slice for who loads a TPU's shared object by its path."""

from __future__ import annotations

import shutil

import pytest

from vtpu.device import _core

PROGRAM = """
import jax, jax.numpy as jnp
print(jax.devices()[0].device_kind, len(jax.local_devices()), (jnp.ones(3) + 1).shape)
"""


@pytest.mark.parametrize("is_copy", [False, True])
def test_the_core_serves_as_the_tpu_library(virtual, is_copy):
    library = _core.__file__
    if is_copy:
        library = shutil.copy(library, virtual.folder / "libtpu.so")
    by_path = {"JAX_PLATFORMS": "tpu,cpu", "TPU_LIBRARY_PATH": str(library)}
    del virtual.environment["VTPU_ON"]
    ended = virtual.run(PROGRAM, **by_path)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "TPU v5 lite 4 (3,)\n"


def test_a_slice_that_does_not_exist_is_said_by_the_backend(virtual):
    del virtual.environment["VTPU_ON"]
    by_path = {"JAX_PLATFORMS": "tpu,cpu", "TPU_LIBRARY_PATH": str(_core.__file__)}
    ended = virtual.run(PROGRAM, VTPU_HOST="99", **by_path)
    assert ended.exit_code == 1
    assert "there is no host 99" in ended.stderr
