"""`vtpu replay`: HBM over a recorded run, under the TPU's allocator or another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from vtpu.cli.options import Json, load, refuse_replacing
from vtpu.hbm import AllocatorName


def replay_command(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="A file of `vtpu run`.")],
    allocator: Annotated[
        AllocatorName,
        typer.Option(
            "--allocator",
            help="The TPU runtime's, XLA's for GPUs as JAX sets it (bfc), or TensorFlow's (growth).",
        ),
    ] = AllocatorName.TPU,
    fraction: Annotated[
        float | None,
        typer.Option(
            "--fraction",
            metavar="PART",
            help="The part of memory that bfc and growth may use; by default 0.75 and 1.",
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="SLICE", help="Another chip, with as many devices per host."),
    ] = None,
    json: Json = None,
) -> None:
    """Replay what a run asked of device memory. Exit code 1: not everything finds room."""
    from vtpu.analysis.replay.allocators import choose_allocator
    from vtpu.analysis.replay.summary import summarize_replay
    from vtpu.report.json_output import replay_as_json, write_json
    from vtpu.report.replay_report import replay_document
    from vtpu.report.text import print_document

    refuse_replacing({"--json": json}, read=(recording,))
    loaded = load(recording)
    choice = choose_allocator(loaded, allocator, fraction=fraction, on=on)
    summary = summarize_replay(loaded, choice)
    if json != "-":
        print_document(replay_document(summary), sys.stdout)
    if json:
        write_json(replay_as_json(summary), json)
    if not summary.fits:
        raise typer.Exit(1)
