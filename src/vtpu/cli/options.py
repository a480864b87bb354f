"""Options that several commands take."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vtpu.device import settings as names
from vtpu.device.settings import parse_host_speed, refuse_pace_of_another_host
from vtpu.errors import UsageError
from vtpu.values.budget import Mode, Unknown, parse_budget

if TYPE_CHECKING:
    from vtpu.analysis.run.time import Timing
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
HostSpeed = Annotated[
    float | None,
    typer.Option(
        "--host-speed",
        metavar="TIMES",
        help="How many times as fast as this machine the slice's host computes; inf: it takes no time. By default 1.",
    ),
]
Pace = Annotated[
    bool,
    typer.Option(
        "--pace",
        help="Wait for the slice as it would really take, so that the program's own times are those.",
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


def timing_of(host_speed: float | None) -> Timing:
    """How the time of a run is told, by an option; without it by the environment.

    Raises:
        UsageError: the speed is none.
    """
    from vtpu.analysis.run.time import Timing

    if host_speed is None:
        speed = parse_host_speed(os.environ.get(names.HOST_SPEED), names.HOST_SPEED)
    else:
        speed = parse_host_speed(f"{host_speed:g}", "--host-speed")
    return Timing(host_speed=speed)


def refuse_replacing(
    written: Mapping[str, Path | str | None], read: Iterable[Path | str | None] = ()
) -> None:
    """Before anything runs: does each file that a command writes, by option, stand alone?

    Raises:
        UsageError: one would replace a file that the command reads, or that another option writes.
    """
    taken = {Path(name).absolute() for name in read if name}
    for option, name in written.items():
        if not name or name == "-":
            continue
        path = Path(name).absolute()
        if path in taken:
            raise UsageError(f"{option} {name} would replace a file that the command uses.")
        taken.add(path)


def prepare_folders(xprof: Path | None, perfetto: Path | None) -> None:
    """Makes the folders that profiles go to, before anything runs.

    Raises:
        UsageError: one cannot be made.
    """
    for folder in (xprof, perfetto.parent if perfetto else None):
        try:
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"no profile can be written to {folder}: {error.strerror}") from error


def pace_environment(pace: bool, timing: Timing) -> dict[str, str]:
    """The setting that `--pace` means. What was not given stays as the environment has it.

    Raises:
        UsageError: the time of the run is told for another host than this machine.
    """
    refuse_pace_of_another_host(pace, timing.host_speed)
    return {names.PACE: "on"} if pace else {}


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
