"""`vtpu slices`: what slices there are, and all about one."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vtpu.cli.options import Json


def slices_command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A slice or a generation, any dialect.")
    ] = None,
    json: Json = None,
) -> None:
    """List the TPU slices, or show one: chips, hosts, memory, peak figures, links, names."""
    from vtpu.report.slices_report import slices_as_json, slices_document
    from vtpu.report.text import print_document

    document = slices_document(name)
    if json:
        from vtpu.report.json_output import write_json

        write_json(slices_as_json(name), json)
    if json != "-":
        print_document(document, sys.stdout)
