"""`vtpu run`: a script on a virtual slice, then the report.

The script runs in a process of its own, exactly as `python script.py` would run it, with the slice
chosen by its environment. Its output, its errors and its exit code are its own.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from vtpu.chips import Slice, parse_slice
from vtpu.cli.options import (
    Host,
    HostSpeed,
    Json,
    On,
    Out,
    Pace,
    Perfetto,
    UnknownValues,
    Values,
    ValuesBudget,
    Xprof,
    pace_environment,
    prepare_folders,
    refuse_replacing,
    timing_of,
    values_environment,
)
from vtpu.cli.witness import Witness
from vtpu.device import settings as names
from vtpu.errors import UsageError
from vtpu.recording.claim import claim_file, release_unused

if TYPE_CHECKING:
    from vtpu.analysis.run.time import Timing

_GROUP_FOLLOWS_S = 0.03
CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def run_command(
    script: Annotated[
        list[str] | None,
        typer.Argument(metavar="SCRIPT [ARGUMENTS]...", help="The script and its own arguments."),
    ] = None,
    on: On = names.DEFAULT_SLICE,
    host: Host = 0,
    out: Out = Path("run.vtpu"),
    json: Json = None,
    values: Values = None,
    values_budget: ValuesBudget = None,
    unknown: UnknownValues = None,
    pace: Pace = False,
    host_speed: HostSpeed = None,
    xprof: Xprof = None,
    perfetto: Perfetto = None,
    module: Annotated[
        str | None,
        typer.Option("-m", metavar="MODULE", help="Run a module as `python -m` does."),
    ] = None,
) -> None:
    """Run a script on a virtual TPU slice and report what happened."""
    arguments = [*(["-m", module] if module else []), *(script or [])]
    if not arguments:
        raise UsageError("Nothing to run. Write `vtpu run script.py`, or `vtpu run -m module`.")
    timing = timing_of(host_speed)
    refuse_replacing({"--out": out, "--json": json, "--perfetto": perfetto}, read=arguments[:1])
    prepare_folders(xprof, perfetto)
    settings = {
        **values_environment(values, values_budget, unknown),
        **pace_environment(pace, timing),
    }
    code = run_and_report(
        arguments,
        on=on,
        host=host,
        out=out,
        json=json,
        settings=settings,
        timing=timing,
        profiles=(xprof, perfetto),
    )
    sys.exit(code)


def run_and_report(
    arguments: list[str],
    *,
    on: str,
    host: int,
    out: Path,
    json: str | None,
    settings: Mapping[str, str],
    timing: Timing,
    profiles: tuple[Path | None, Path | None] = (None, None),
) -> int:
    """Runs `python ARGUMENTS` on host `host` of slice `on`, then reports. Returns the exit code.

    `settings` are further ones, as the environment holds them. `timing`: how its time is told.
    `profiles`: where a profile for XProf and a trace for Perfetto are written.

    Raises:
        UsageError: no such slice or host.
        CompilerMissing: libtpu is not installed.
    """
    wanted = _check(on, host)
    run = names.RunName(os.getpid(), time.time())
    path, claim, problem = _claim(out)
    child = _start(arguments, {**_environment(on, host, path, run), **settings})
    status = _wait(child, lambda: _prepare_report(json))
    others = _other_recordings(out.absolute(), path, str(run))
    with claim:
        _report(path, status, json, problem, others, timing)
        if any(profiles):
            _write_profiles(path, profiles, json, timing)
    if json and _is_empty(path):
        command = (sys.executable, *arguments)
        _report_unused(on, wanted, host, command, status, json, others)
    if others:
        file = sys.stderr if json == "-" else sys.stdout
        print(f"\nOther processes of this run recorded {', '.join(others)}", file=file)
    _clear_away(path, problem)
    if status < 0:
        _die_by(-status)
    return status


def _check(on: str, host: int) -> Slice:
    from vtpu.compiler.pool import find_libtpu

    wanted = parse_slice(on)
    if not 0 <= host < wanted.num_hosts:
        raise UsageError(
            f"{wanted.describe()}: there is no host {host}; {wanted.describe_hosts()}."
        )
    find_libtpu()
    return wanted


def _claim(out: Path) -> tuple[Path, BinaryIO, str | None]:
    """The recording's file, made for the child; a temporary one when `out` cannot be written."""
    try:
        around = names.run_of()  # a run within a run
        path, claim = claim_file(out.absolute(), around.began_unix_s if around else None)
    except OSError as error:
        problem = f"the recording cannot be written to {out}: {error.strerror}"
        handle, name = tempfile.mkstemp(prefix="vtpu-", suffix=".vtpu")
        return Path(name), os.fdopen(handle, "r+b"), problem
    return path, claim, None


def _environment(on: str, host: int, path: Path, run: names.RunName) -> dict[str, str]:
    startup = str(Path(__file__).parent / "startup")  # its `sitecustomize` removes this again
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([startup, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "JAX_PLATFORMS": "vtpu",
        names.SLICE: on,
        names.HOST: str(host),
        names.OUT: str(path),
        names.OUT_CLAIMED_FOR: str(run.pid),
        names.RUN: str(run),
        names.REPORT: "off",
    }


def _start(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    sys.stdout.flush()
    return subprocess.Popen([sys.executable, *arguments], env=environment)


def _prepare_report(json: str | None) -> None:
    """Loads what the report needs while the script runs."""
    importlib.import_module("vtpu.report.terminal")
    if json:
        importlib.import_module("vtpu.report.json_output")


def _wait(child: subprocess.Popen[bytes], meanwhile: Callable[[], None]) -> int:
    """Waits for the child; hands on the signals that only this process got."""
    handed_on = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, handed_on | {signal.SIGCHLD})
    witness = Witness(handed_on)
    meanwhile()
    while child.poll() is None:
        got = signal.sigtimedwait(handed_on | {signal.SIGCHLD}, 1.0)
        if got and got.si_signo in handed_on:
            _hand_on(signal.Signals(got.si_signo), child, witness)
    witness.end()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handed_on | {signal.SIGCHLD})
    return child.returncode


def _hand_on(number: signal.Signals, child: subprocess.Popen[bytes], witness: Witness) -> None:
    """Sends the child a signal that we got, unless it went to the child too."""
    time.sleep(_GROUP_FOLLOWS_S)
    while signal.sigtimedwait({number}, 0):
        pass  # the same again: `timeout` signals first us, then the group
    if not (number in witness.saw() and _is_in_our_group(child)):
        child.send_signal(number)


def _is_in_our_group(child: subprocess.Popen[bytes]) -> bool:
    try:
        return os.getpgid(child.pid) == os.getpgrp()
    except ProcessLookupError:
        return False


def _report(
    path: Path,
    status: int,
    json: str | None,
    problem: str | None,
    others: tuple[str, ...],
    timing: Timing,
) -> None:
    from vtpu.report.terminal import report_run

    report_run(
        path,
        exit_code=status,
        json=json,
        problem=problem,
        other_recordings=others,
        timing=timing,
    )


def _write_profiles(
    path: Path, profiles: tuple[Path | None, Path | None], json: str | None, timing: Timing
) -> None:
    from vtpu.recording.file import load_recording
    from vtpu.report.profiles.recorded import ProfileFiles, write_profiles

    if not path.exists() or _is_empty(path):
        print("vtpu: there is no profile: nothing was recorded", file=sys.stderr)
        return
    try:
        said = write_profiles(load_recording(path), ProfileFiles(*profiles), timing.host_speed)
    except UsageError as error:  # the program's end counts, not the profile's
        print(f"vtpu: {error}", file=sys.stderr)
        return
    print("\n" + "\n".join(said), file=sys.stderr if json == "-" else sys.stdout)


def _is_empty(path: Path) -> bool:
    return path.exists() and path.stat().st_size == 0


def _clear_away(path: Path, problem: str | None) -> None:
    """Removes a file that holds nothing or has no name.

    An older recording then stays aside, for it is not of this run; but where the disk is full, it is
    back in its place.
    """
    if problem is not None or _is_empty(path):
        path.unlink(missing_ok=True)
    else:
        release_unused(path)


def _report_unused(
    on: str,
    wanted: Slice,
    host: int,
    command: tuple[str, ...],
    status: int,
    json: str,
    others: tuple[str, ...],
) -> None:
    from vtpu.cli.unused import report_unused

    try:
        report_unused(on, wanted, host, command, status, json, others)
    except UsageError as error:  # the program's end counts, not the report's
        print(f"vtpu: {error}", file=sys.stderr)


def _other_recordings(out: Path, own: Path, run: str) -> tuple[str, ...]:
    """Where the processes that the script started recorded."""
    beside = out.parent.glob(f"{glob.escape(out.stem)}-*{glob.escape(out.suffix)}")
    others = [p for p in beside if p != own and _run_recorded_at(p) == run]
    return tuple(map(str, sorted(others, key=lambda p: (len(p.name), p.name))))


def _run_recorded_at(path: Path) -> str | None:
    from vtpu.recording.file import read_run

    try:
        run = read_run(path)
    except OSError:  # not ours to read
        return None
    return run.part_of if run else None


def _die_by(number: int) -> None:
    """Ends this process as the child ended, so that shells see the same."""
    with contextlib.suppress(OSError):  # SIGKILL does so without being asked
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
