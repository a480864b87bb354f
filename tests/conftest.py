"""What the tests share: a bench to run programs on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from running import Bench

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Tests that run in a shell's background ignore Ctrl-C, and what they start would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_OURS = ("VTPU_", "JAX_", "XLA_", "TPU_", "LIBTPU_", "PYTHON", "COLUMNS")


@pytest.fixture(scope="session")
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment of programs under test: no settings of ours but the cache of compiles.

    That cache survives the session, so that only the first one compiles.
    """
    plain = {k: v for k, v in os.environ.items() if not k.startswith(_OURS)}
    if "PYTHONPATH" in os.environ:
        plain["PYTHONPATH"] = os.environ["PYTHONPATH"]
    cache = request.config.cache
    folder = os.environ.get("VTPU_CACHE_DIR") or (cache and str(cache.mkdir("vtpu")))
    return {**plain, "VTPU_CACHE_DIR": folder} if folder else plain


@pytest.fixture
def bench(tmp_path: Path, environment: dict[str, str]) -> Bench:
    """A bench in a folder of its own."""
    return Bench(tmp_path, environment)
