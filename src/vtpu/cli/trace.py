"""`vtpu trace`: a profile of real hardware in tables, and beside what was predicted for it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vtpu.cli.options import Json, load, prepare_folders, refuse_replacing
from vtpu.errors import UsageError

if TYPE_CHECKING:
    from vtpu.analysis.measured.against import Comparison
    from vtpu.analysis.measured.summary import MeasuredProfile
    from vtpu.reading.xplane.reading import ReadProfile

_ENDING = ".xplane.pb"
_LARGEST_BYTES = 2 << 30  # a protobuf message is no larger
_HEAD_BYTES = 256 << 10
_EXPECTED = (
    "vtpu trace reads an *.xplane.pb of jax.profiler, or a folder with one (the `DIR` of "
    "jax.profiler.trace(DIR))"
)


def trace_command(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="FILE_OR_DIR", help="An *.xplane.pb of jax.profiler, or a folder with one."
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="RECORDING",
            help="A recording of the same script: where prediction and measurement differ.",
        ),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            "--perfetto", metavar="FILE", help="Write the profile as a trace for ui.perfetto.dev."
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Show a profile of real hardware: steps, idle time, operations, layers, communication."""
    from vtpu.analysis.measured.summary import summarize_profile
    from vtpu.report.text import print_document
    from vtpu.report.trace_report import trace_document

    names = profile_files(profile)
    refuse_replacing({"--json": json, "--perfetto": perfetto}, read=(*names, against))
    prepare_folders(None, perfetto)
    read = [_read(name) for name in names]
    summary = summarize_profile(read)
    comparison = _compare(summary, against) if against else None
    if perfetto:
        _write_perfetto(read, perfetto)
    if json != "-":
        print_document(trace_document(summary, names, comparison, str(Path.cwd())), sys.stdout)
    if json:
        from vtpu.report.json_output import write_json
        from vtpu.report.trace_json import trace_as_json

        write_json(trace_as_json(summary, names, comparison), json)


def profile_files(name: str) -> list[str]:
    """The profiles that `name` stands for: itself, or those of the newest run in a folder.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    try:
        mode = Path(name).stat().st_mode
    except FileNotFoundError:
        raise UsageError(f"{name} does not exist. {_EXPECTED}.") from None
    except (OSError, ValueError) as error:  # a NUL byte in the name
        raise UsageError(f"{name!r} cannot be read: {error}") from error
    return _newest_run(name) if stat.S_ISDIR(mode) else [name]


def _newest_run(folder: str) -> list[str]:
    """The profiles of all hosts of the run whose files are the newest."""
    found = [
        Path(parent, file)
        for parent, _, files in os.walk(folder)
        for file in files
        if file.endswith((_ENDING, f"{_ENDING}.gz"))
    ]
    if not found:
        raise UsageError(f"{folder} has no *{_ENDING} in it or below. {_EXPECTED}.")
    newest = max(found, key=lambda path: path.stat().st_mtime).parent
    return sorted(str(path) for path in found if path.parent == newest)


def _read(name: str) -> ReadProfile:
    """The profile in a file.

    Raises:
        UsageError: it cannot be read, or is something else.
    """
    from vtpu.reading.recognize import Kind, recognize
    from vtpu.reading.xplane.reading import read_space, unpacked

    try:
        with Path(name).open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if os.fstat(file.fileno()).st_size > _LARGEST_BYTES:
                raise UsageError(
                    f"{name} is larger than a profile can be: it is damaged or foreign."
                )
            inside = unpacked(head, [])
            kind = recognize(inside)
            if kind is not Kind.XPLANE and not _may_be_cut(inside, kind):
                raise UsageError(f"{name} is {_other_form(inside, kind)}. {_EXPECTED}.")
            return read_space(head + file.read())
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error


def _may_be_cut(head: bytes, kind: object) -> bool:
    """Bytes that may be the begin of a profile whose rest is missing."""
    from vtpu.reading.recognize import Kind

    return kind is Kind.BINARY and head.startswith(b"\n")


def _other_form(head: bytes, kind: object) -> str:
    """What a file is that is no XSpace, in words that help."""
    from vtpu.reading.recognize import Kind

    if kind is Kind.JSON and b'"traceEvents"' in head:
        return (
            "the other form in which profilers write (trace.json of the Chrome tracing format); the "
            f"*{_ENDING} beside it holds more, and is what is read"
        )
    assert isinstance(kind, Kind)
    if kind is Kind.RECORDING:
        return "a recording of vtpu: name it behind --against, or show it with `vtpu show`"
    return kind.value


def _compare(summary: MeasuredProfile, against: Path) -> Comparison:
    from vtpu.analysis.measured.against import compare_with_recording
    from vtpu.analysis.timeline.times import program_times

    recording = load(against)
    return compare_with_recording(summary, recording, program_times(recording))


def _write_perfetto(read: list[ReadProfile], path: Path) -> None:
    from dataclasses import replace

    from vtpu.reading.xplane.space import Space
    from vtpu.report.profiles.files import write_profile
    from vtpu.report.profiles.perfetto import perfetto_trace

    planes = tuple(plane for profile in read for plane in profile.space.planes)
    numbered = tuple(replace(plane, id=n) for n, plane in enumerate(planes, start=1))
    write_profile(perfetto_trace(Space(planes=numbered)), path)
