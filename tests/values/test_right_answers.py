"""Programs print on the virtual slice what they print on JAX's CPU backend, to the last digit."""

from __future__ import annotations

from pathlib import Path

import pytest

from running import Bench

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
EIGHT_CPUS = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
}


@pytest.mark.parametrize("mode", ["cpu", "auto"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_slice_prints_what_the_cpu_prints(bench: Bench, script: Path, mode: str) -> None:
    expected = bench.python(str(script), **EIGHT_CPUS)
    assert expected.exit_code == 0, expected.stderr[-4000:]
    assert expected.stdout

    run = bench.run(script, VTPU_VALUES=mode, VTPU_VALUES_BUDGET="10min")  # a loaded machine

    assert run.exit_code == 0, run.stderr[-4000:]
    assert run.printed == expected.stdout
    assert run.summary.fabricated_values == ()


def test_the_slice_is_the_same_whatever_is_computed(bench: Bench) -> None:
    script = Path(__file__).parent / "scripts" / "sharded.py"
    runs = [bench.run(script, VTPU_VALUES=mode) for mode in ("zeros", "auto", "cpu")]
    for run in runs[1:]:
        assert run.summary.hbm == runs[0].summary.hbm
        assert run.summary.transfers == runs[0].summary.transfers
        assert [(p.name, p.calls) for p in run.summary.programs] == [
            (p.name, p.calls) for p in runs[0].summary.programs
        ]
