"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="SLICE",
        help="The slice, in any dialect: v5e-16, v5litepod-16, v5e:4x4, v5p-128, 2*v6e-256.",
    ),
]
Host = Annotated[int, typer.Option("--host", help="Which host of the slice this process is.")]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the recording goes.")]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write the report as JSON; `-` prints it in place of the report.",
    ),
]
