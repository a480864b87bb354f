"""Settings of the tests of `vtpu.chips`: the `slow` mark, for tests that start libtpu."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: starts libtpu in child processes, seconds")
