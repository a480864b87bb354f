"""`vtpu demo`: a bundled training script on a virtual slice."""

from __future__ import annotations

import sys
from pathlib import Path

from vtpu.cli.options import (
    Host,
    Json,
    On,
    Out,
    UnknownValues,
    Values,
    ValuesBudget,
    values_environment,
)
from vtpu.device.settings import DEFAULT_SLICE


def demo_command(
    on: On = DEFAULT_SLICE,
    host: Host = 0,
    out: Out = Path("run.vtpu"),
    json: Json = None,
    values: Values = None,
    values_budget: ValuesBudget = None,
    unknown: UnknownValues = None,
) -> None:
    """Train a small language model on a virtual slice, as an example of a report."""
    from vtpu.cli.run import run_and_report

    script = Path(__file__).parents[1] / "demo" / "train.py"
    print(f"vtpu run --on {on} {script}", file=sys.stderr)
    settings = values_environment(values, values_budget, unknown)
    sys.exit(run_and_report([str(script)], on=on, host=host, out=out, json=json, settings=settings))
