"""`vtpu diff`: what differs between two programs or two runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from vtpu.cli.options import Json, refuse_replacing
from vtpu.errors import UsageError

_WHAT = "A recording, a program in one (run.vtpu::jit_step), JSON of `vtpu check`, or XLA's dump."


def diff_command(
    before: Annotated[str, typer.Argument(metavar="A", help=_WHAT)],
    after: Annotated[str, typer.Argument(metavar="B", help="What it is compared with.")],
    json: Json = None,
) -> None:
    """Show what differs between two programs or two runs: what grew, by argument, layer and line.

    Exit code 0: both were read, whether they differ or not. 2: one of them could not be.
    """
    from vtpu.analysis.diff.memory import diff_memory
    from vtpu.analysis.diff.runs import diff_recordings
    from vtpu.cli.comparands import load_comparand
    from vtpu.recording.recording import Recording
    from vtpu.report.diff_json import diff_as_json
    from vtpu.report.diff_report import memory_diff_document, run_diff_document
    from vtpu.report.text import print_document

    refuse_replacing({"--json": json}, read=(before.partition("::")[0], after.partition("::")[0]))
    one, other = load_comparand(before), load_comparand(after)
    if isinstance(one, Recording) and isinstance(other, Recording):
        diff = diff_recordings(one, other)
        document = run_diff_document(diff, before, after)
    elif isinstance(one, Recording) or isinstance(other, Recording):
        recording, program = (before, after) if isinstance(one, Recording) else (after, before)
        raise UsageError(
            f"{recording} is a recording and {program} is one program: name a program of the "
            f"recording, as {recording}::NAME (`vtpu show {recording}` lists them)."
        )
    else:
        diff = diff_memory(one, other)
        document = memory_diff_document(diff, before, after, str(Path.cwd()))
    if json != "-":
        print_document(document, sys.stdout)
    if json:
        from vtpu.report.json_output import write_json

        write_json(diff_as_json(diff, before, after), json)
