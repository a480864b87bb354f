"""`vtpu show`: the report of a saved recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vtpu.cli.options import HostSpeed, Json, load, timing_of


def show_command(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="A file of `vtpu run`.")],
    json: Json = None,
    host_speed: HostSpeed = None,
) -> None:
    """Show the report of a recording again."""
    from vtpu.report.terminal import report_recording

    timing = timing_of(host_speed)
    report_recording(load(recording), str(recording), json, timing=timing)
