"""The report of a recording file, printed or as JSON: what `run`, `show` and `demo` end with."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from vtpu.analysis.run.summary import summarize
from vtpu.analysis.run.time import Timing
from vtpu.analysis.time.programs import ProgramTimes
from vtpu.errors import UsageError
from vtpu.findings.search import find_in_run
from vtpu.findings.subjects import run_subject
from vtpu.recording.file import append_exit_code, load_recording
from vtpu.recording.recording import Recording
from vtpu.report.run_report import run_document
from vtpu.report.text import print_document

_NOT_USED = (
    "vtpu: the program ended without using the TPU: nothing was recorded. If it selects another "
    "platform itself (jax_platforms, JAX_PLATFORMS), it ran there."
)


def report_run(
    path: Path,
    *,
    exit_code: int,
    json: str | None,
    problem: str | None,
    other_recordings: tuple[str, ...],
    timing: Timing,
) -> None:
    """Reports a run that just ended; notes its exit code in the file.

    `problem`: why `path` is not the file that was asked for. `other_recordings`: files of the other
    processes of the run.
    """
    if not path.exists():  # the program could not write it, and said so
        return
    if path.stat().st_size == 0:
        if exit_code == 0:  # else it said itself what is wrong
            print(_NOT_USED, file=sys.stderr)
        return
    with contextlib.suppress(OSError):  # the disk is full
        append_exit_code(path, exit_code)
    recording = replace(load_recording(path), exit_code=exit_code)
    if problem:
        recording = replace(recording, problems=(*recording.problems, problem))
    try:
        _report(recording, other_recordings, timing, None if problem else str(path), json)
    except UsageError as error:  # the program's end counts, not the report's
        print(f"vtpu: {error}", file=sys.stderr)


def report_recording(
    recording: Recording,
    path: str | None,
    json: str | None,
    file: TextIO | None = None,
    timing: Timing = Timing(),  # noqa: B008, it is frozen
) -> None:
    """Prints the report of a recording, or writes it as JSON (`-`: in place of the report).

    `file`: where people read it; by default standard output.

    Raises:
        UsageError: the file for the JSON cannot be written.
    """
    _report(recording, None, timing, path, json, file)


def _report(
    recording: Recording,
    other_recordings: tuple[str, ...] | None,
    timing: Timing,
    path: str | None,
    json: str | None,
    file: TextIO | None = None,
) -> None:
    times = ProgramTimes(recording)  # programs are read once for the summary and the findings
    timing = replace(timing, durations=timing.durations or times)
    summary = summarize(recording, other_recordings, timing)
    findings = find_in_run(run_subject(recording, summary, times))
    if json != "-":
        print_document(run_document(summary, path, findings), file or sys.stdout)
    if json:
        from vtpu.report.json_output import run_as_json, write_json

        write_json(run_as_json(summary, findings), json)
