"""A slice or host that does not exist is one message, and the program does not start."""

from __future__ import annotations

import pytest

from running import Bench

SCRIPT = "print('started')\nimport jax\nprint(jax.devices())\n"


@pytest.mark.parametrize(
    ("slice_name", "nearest"),
    [
        ("v5e-17", "v5e-16"),
        ("v5litepod-15", "v5e-16"),
        ("v5p:3x5x7", "v5p"),
        ("v9e-4", "v6e"),
        ("", ""),
    ],
)
def test_an_unknown_slice_is_refused_with_the_nearest_names(
    bench: Bench, slice_name: str, nearest: str
) -> None:
    ended = bench.vtpu("run", "--on", slice_name, bench.script(SCRIPT))

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("vtpu: ")
    assert slice_name in ended.stderr
    assert nearest in ended.stderr
    assert "Traceback" not in ended.stderr
    assert {path.name for path in bench.folder.iterdir()} == {"prog.py"}


@pytest.mark.parametrize("host", ["4", "-1"])
def test_a_host_that_the_slice_has_not_is_refused(bench: Bench, host: str) -> None:
    ended = bench.vtpu("run", "--on", "v5e-16", "--host", host, bench.script(SCRIPT))

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"vtpu: v5e-16 = v5e:4x4, 16 chips, 4 hosts: there is no host {host}; its hosts are 0 to 3.\n"
    )


def test_a_slice_of_one_host_has_no_other(bench: Bench) -> None:
    ended = bench.vtpu("run", "--on", "v5e-8", "--host", "1", bench.script(SCRIPT))
    assert ended.stderr.endswith("there is no host 1; its only host is 0.\n")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"VTPU_ON": "v5e-17"}, "v5e-16"),
        ({"VTPU_ON": "v5e-16", "VTPU_HOST": "9"}, "there is no host 9; its hosts are 0 to 3."),
        ({"VTPU_HOST": "first"}, "VTPU_HOST='first' is not a whole number."),
        ({"VTPU_CACHE_LIMIT_BYTES": "much"}, "VTPU_CACHE_LIMIT_BYTES='much' is not a size"),
    ],
)
def test_a_wrong_environment_is_an_error_at_the_first_use(
    bench: Bench, settings: dict[str, str], said: str
) -> None:
    ended = bench.python(bench.script(SCRIPT), JAX_PLATFORMS="vtpu", **settings)

    assert (ended.exit_code, ended.stdout) == (1, "started\n")
    assert ended.stderr.startswith("Traceback (most recent call last):\n")
    assert "\nRuntimeError: Unable to initialize backend 'tpu': \n\n  vtpu: " in ended.stderr
    line = ended.stderr.splitlines()[-3]  # JAX goes on behind it
    assert line.startswith("  vtpu: ")
    assert said in line


def test_nothing_to_run_is_refused(bench: Bench) -> None:
    ended = bench.vtpu("run", "--on", "v5e-8")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == (
        "vtpu: Nothing to run. Write `vtpu run script.py`, or `vtpu run -m module`.\n"
    )
