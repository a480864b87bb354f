"""What the tests of the device share."""

from __future__ import annotations

import pytest

from device.virtual_slice import Slice
from running import Bench


@pytest.fixture
def virtual(bench: Bench) -> Slice:
    """A virtual slice to run programs on."""
    return Slice(bench)
