"""`vtpu show`: the report of a saved recording."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from vtpu.cli.options import (
    HostSpeed,
    Json,
    Perfetto,
    Xprof,
    load,
    prepare_folders,
    refuse_replacing,
    timing_of,
)


def show_command(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="A file of `vtpu run`.")],
    json: Json = None,
    host_speed: HostSpeed = None,
    xprof: Xprof = None,
    perfetto: Perfetto = None,
) -> None:
    """Show the report of a recording again, or write its profile."""
    from vtpu.report.terminal import report_recording

    refuse_replacing({"--json": json, "--perfetto": perfetto}, read=(recording,))
    prepare_folders(xprof, perfetto)
    loaded = load(recording)
    timing = timing_of(host_speed)
    report_recording(loaded, str(recording), json, timing=timing)
    if xprof or perfetto:
        from vtpu.report.profiles.recorded import ProfileFiles, write_profiles

        files = ProfileFiles(xprof, perfetto)
        for line in write_profiles(loaded, files, timing.host_speed):
            print(line, file=sys.stderr if json == "-" else sys.stdout)
