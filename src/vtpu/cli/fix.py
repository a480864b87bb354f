"""`vtpu fix`: changes tried on the virtual slice, and what each is worth."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vtpu.changes.goal import Goal
from vtpu.cli.options import Json, On
from vtpu.device import settings as names
from vtpu.errors import UsageError

if TYPE_CHECKING:
    from vtpu.changes.outcome import FixOutcome
    from vtpu.changes.target import FixTarget
    from vtpu.fixing.search import FixOptions

CONTEXT = {"ignore_unknown_options": True, "allow_interspersed_args": True}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_FOUND, _NOTHING_HELPS = 0, 1


def fix_command(
    target: Annotated[
        str, typer.Argument(metavar="SCRIPT|MODULE:FUNCTION", help="`train.py`, or `train:step`.")
    ],
    script_arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGUMENTS]...", help="The script's own arguments, behind `--`."),
    ] = None,
    on: On = names.DEFAULT_SLICE,
    goal: Annotated[
        Goal | None,
        typer.Option(
            "--goal",
            help="What to improve. By default that it fits, if it does not, else its memory.",
        ),
    ] = None,
    within: Annotated[
        str, typer.Option("--within", metavar="TIME", help="How long to search: 90s, 10m, 1h.")
    ] = "10m",
    compiles: Annotated[
        int | None,
        typer.Option(
            "--compiles",
            metavar="N",
            min=1,
            help="Begin no trial after N new compiles; results in the cache are none.",
        ),
    ] = None,
    different: Annotated[
        bool,
        typer.Option(
            "--different",
            help="Combine changes too that alter results by design (types, shapes, batches).",
        ),
    ] = False,
    apply: Annotated[
        int | None,
        typer.Option(
            "--apply",
            metavar="N",
            help="Write change N of the last search into the file, with a backup.",
        ),
    ] = None,
    arguments: Annotated[
        str | None,
        typer.Option("--args", metavar="MODULE:NAME", help="A function's arguments, as for check."),
    ] = None,
    json: Json = None,
) -> None:
    """Try changes on the virtual slice, and say which help, by how much and at what price.

    The program's files stay as they are, unless --apply says otherwise. Exit code 0: something helps. 1:
    nothing does. 2: the command or the program is wrong.
    """
    from vtpu.changes.target import read_target

    found = read_target(target, str(Path.cwd()), tuple(script_arguments or ()), arguments)
    if apply is not None:
        sys.exit(_apply(found, on, apply))
    from vtpu.fixing.search import FixOptions

    options = FixOptions(
        goal=goal,
        within_s=_seconds(within),
        most_compiles=compiles,
        combines_different=different,
        says=_say,
    )
    sys.exit(_search(found, on, options, json))


def _seconds(text: str) -> float:
    match = _TIME.fullmatch(text.strip())
    if not match or not float(match[1]):
        raise UsageError(f"--within {text} is no time. Write 90s, 10m or 1h.")
    return float(match[1]) * _SECONDS[match[2]]


def _search(target: FixTarget, on: str, options: FixOptions, json: str | None) -> int:
    from vtpu.chips import parse_slice
    from vtpu.fixing.search import search
    from vtpu.fixing.store import keep_outcome
    from vtpu.report.fix_json import fix_as_json
    from vtpu.report.fix_report import fix_document
    from vtpu.report.json_output import write_json
    from vtpu.report.text import print_document

    wanted = parse_slice(on)
    for ending in (
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # as Ctrl-C: trials are ended, what was found is told
        signal.signal(ending, signal.default_int_handler)
    try:
        outcome = search(target, wanted.name, options)
    finally:
        _say("")
    keep_outcome(outcome, _folder())
    if json != "-":
        print_document(fix_document(outcome), sys.stdout)
    if json:
        write_json(fix_as_json(outcome), json)
    return _FOUND if outcome.best else _NOTHING_HELPS


def _say(text: str) -> None:
    """Tells people who wait what is tried, and clears that away again; nothing where nobody looks."""
    if sys.stderr.isatty():
        width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
        line = f"vtpu fix: {text}"[:width] if text else ""
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)


def _folder() -> Path:
    from vtpu.device.settings import read_settings

    return read_settings().cache_folder


def _apply(target: FixTarget, on: str, number: int) -> int:
    from vtpu.changes.change import Numerics
    from vtpu.changes.outcome import Verdict
    from vtpu.chips import parse_slice
    from vtpu.fixing.applying import edited_files, write_files
    from vtpu.fixing.store import find_outcome
    from vtpu.report.fix_report import diff_text

    slice_name = parse_slice(on).name
    outcome: FixOutcome | None = find_outcome(target, slice_name, _folder())
    if outcome is None:
        raise UsageError(
            f"nothing was tried yet for {target.name} on {slice_name} from this folder. Run "
            "`vtpu fix` without --apply first."
        )
    attempt = outcome.attempt(number)
    if attempt is None:
        known = ", ".join(str(a.number) for a in outcome.attempts) or "none"
        raise UsageError(f"the last search has no change {number}; it has {known}.")
    if attempt.verdict in (Verdict.FAILED, Verdict.NOT_TRIED):
        raise UsageError(
            f"change {number} ({attempt.title}) was not measured: {attempt.reason}. Only what was is written."
        )
    files = edited_files(outcome, attempt)
    if attempt.verdict is Verdict.NO_HELP:
        print("This change did not help when it was tried.")
    if any(c.numerics is Numerics.DIFFERENT for c in attempt.changes):
        print("With this change the results are others, by design.")
    sys.stdout.write(diff_text(outcome, attempt.changes))
    for file, backup in zip(files, write_files(files), strict=True):
        print(f"{file.path} was changed; as it was it is in {backup}")
    for change in attempt.changes:
        if change.advice:
            print(f"Not in the file: {change.advice}")
    return 0
