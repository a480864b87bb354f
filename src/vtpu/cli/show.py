"""`vtpu show`: the report of a saved recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vtpu.cli.options import Json
from vtpu.errors import UsageError


def show_command(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="A file of `vtpu run`.")],
    json: Json = None,
) -> None:
    """Show the report of a recording again."""
    from vtpu.recording.file import load_recording
    from vtpu.report.terminal import report_recording

    try:
        loaded = load_recording(recording)
    except OSError as error:
        raise UsageError(f"{recording} cannot be read: {error.strerror}") from error
    report_recording(loaded, str(recording), json)
