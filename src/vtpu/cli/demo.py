"""`vtpu demo`: a bundled training script on a virtual slice."""

from __future__ import annotations

import sys
from pathlib import Path

from vtpu.cli.options import (
    Host,
    HostSpeed,
    Json,
    On,
    Out,
    Pace,
    UnknownValues,
    Values,
    ValuesBudget,
    pace_environment,
    timing_of,
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
    pace: Pace = False,
    host_speed: HostSpeed = None,
) -> None:
    """Train a small language model on a virtual slice, as an example of a report."""
    from vtpu.cli.run import run_and_report

    script = Path(__file__).parents[1] / "demo" / "train.py"
    print(f"vtpu run --on {on} {script}", file=sys.stderr)
    timing = timing_of(host_speed)
    settings = {
        **values_environment(values, values_budget, unknown),
        **pace_environment(pace, timing),
    }
    code = run_and_report(
        [str(script)], on=on, host=host, out=out, json=json, settings=settings, timing=timing
    )
    sys.exit(code)
