"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vtpu.device import settings as names
from vtpu.errors import UsageError
from vtpu.values.budget import Mode, Unknown, parse_budget

if TYPE_CHECKING:
    from vtpu.recording.recording import Recording

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
Values = Annotated[
    Mode | None,
    typer.Option(
        "--values",
        help="What the host reads is computed within a budget (auto, the default), always (cpu), or "
        "is zero (zeros).",
    ),
]
ValuesBudget = Annotated[
    str | None,
    typer.Option(
        "--values-budget",
        metavar="BUDGET",
        help="What one read may cost with auto: 500GFLOP,32GiB,30s, or parts of it.",
    ),
]
UnknownValues = Annotated[
    Unknown | None,
    typer.Option(
        "--unknown", help="What the host sees of a value that cannot be had. By default zeros."
    ),
]
Xprof = Annotated[
    Path | None,
    typer.Option("--xprof", metavar="DIR", help="Write a profile that XProf and TensorBoard open."),
]
Perfetto = Annotated[
    Path | None,
    typer.Option("--perfetto", metavar="FILE", help="Write a trace for ui.perfetto.dev."),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write the report as JSON; `-` prints it in place of the report.",
    ),
]


def load(path: Path) -> Recording:
    """The recording in a file.

    Raises:
        UsageError: the file cannot be read.
        NotARecording: it is something else.
    """
    from vtpu.recording.file import load_recording

    try:
        return load_recording(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def values_environment(
    values: Mode | None, budget: str | None, unknown: Unknown | None
) -> dict[str, str]:
    """The settings that options about values mean. What was not given stays as the environment has it.

    Raises:
        UsageError: the budget is not understood.
    """
    if budget is not None:
        parse_budget(budget)
    given = {names.VALUES: values, names.VALUES_BUDGET: budget, names.UNKNOWN: unknown}
    return {name: str(value) for name, value in given.items() if value is not None}
