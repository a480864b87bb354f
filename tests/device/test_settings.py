"""What the environment says."""

from __future__ import annotations

import pytest

from vtpu.device.settings import is_asked_for, read_settings
from vtpu.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4_000_000_000), ("1.5 GiB", 3 << 29), ("512", 512), ("", 4 << 30)]
)
def test_the_limit_of_the_cache_is_a_size(text, size):
    assert read_settings({"VTPU_CACHE_LIMIT_BYTES": text}).cache_limit_bytes == size


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("VTPU_CACHE_LIMIT_BYTES", "much"),
        ("VTPU_HOST", "1.5"),
        ("VTPU_COMPILE_TIMEOUT", "soon"),
        ("VTPU_COMPILE_WORKERS", "two"),
    ],
)
def test_a_wrong_number_is_named(name, text):
    with pytest.raises(UsageError, match=f"{name}='{text}' is not"):
        read_settings({name: text})


@pytest.mark.parametrize(
    ("platforms", "on", "is_asked"),
    [
        ("vtpu", None, True),
        ("cpu,vtpu", None, True),
        ("", "v5e-4", True),
        ("tpu", "v5e-4", True),
        ("cpu", "v5e-4", False),
        ("tpu", None, False),
        ("", None, False),
    ],
)
def test_the_slice_is_asked_for(platforms, on, is_asked):
    environment = {"JAX_PLATFORMS": platforms} | ({"VTPU_ON": on} if on else {})
    assert is_asked_for(environment) is is_asked
