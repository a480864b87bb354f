"""`vtpu check`: does a function fit a slice, and where does every byte of its memory go."""

from __future__ import annotations

import contextlib
import re
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Annotated

import typer

from vtpu.cli.options import Json, On
from vtpu.device import settings as names
from vtpu.errors import CompilerDied, VtpuError

_OUR_FOLDER = str(Path(__file__).parents[1])
_DEMO_FOLDER = str(Path(__file__).parents[1] / "demo")  # a program as users write them
_IMPORTLIB = re.compile(r"^<frozen importlib|[/\\]importlib[/\\]__init__\.py$")
_DOES_NOT_FIT, _USERS_ERROR, _COMPILER_FAILED = 1, 2, 3


def check_command(
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:FUNCTION", help="`train:step`, or `path/train.py:step`."),
    ],
    on: On = names.DEFAULT_SLICE,
    arguments: Annotated[
        str | None,
        typer.Option(
            "--args",
            metavar="MODULE:NAME",
            help="A tuple of arrays or jax.ShapeDtypeStruct, or a function that returns one. Default: "
            "FUNCTION_args, abstract_args or args of the function's module.",
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Pack the peak of the heap exactly too, which takes seconds."),
    ] = False,
    json: Json = None,
) -> None:
    """Compile a function for a slice: does it fit, and where does every byte go.

    Exit code 0: it fits. 1: it does not. 2: the command or the function is wrong. 3: the compiler
    failed.
    """
    sys.exit(_check(target, on, arguments, json, exact=exact))


def _check(name: str, on: str, arguments: str | None, json: str | None, *, exact: bool) -> int:
    from vtpu.checks.check import check_call
    from vtpu.checks.compiling import CompileFailed
    from vtpu.checks.lowering import raised_while_traced
    from vtpu.checks.targets import TargetFailed, load_target
    from vtpu.plugin import attach
    from vtpu.report.json_output import write_json
    from vtpu.report.program_json import program_as_json
    from vtpu.report.text import print_document

    attach(on, report=False, values="zeros")
    try:
        with _prints_elsewhere(json):
            target = load_target(name, arguments)
            found = check_call(target.function, target.args, target.kwargs, on, exact=exact)
    except TargetFailed as failed:
        return _show_users_error(failed.__cause__ or failed)
    except (CompileFailed, CompilerDied) as failure:
        print(f"vtpu: {failure}", file=sys.stderr)
        return _COMPILER_FAILED
    except VtpuError:
        raise
    except (Exception, SystemExit) as error:  # an exit of the function is no answer of ours
        if not raised_while_traced(error):
            raise
        return _show_users_error(error)
    if json != "-":
        print_document(found.document, sys.stdout)
    if json:
        write_json(program_as_json(found.report, found.findings), json)
    return 0 if found.fits else _DOES_NOT_FIT


def _prints_elsewhere(json: str | None) -> contextlib.AbstractContextManager[object]:
    """Where standard output is the JSON report, what the program prints goes to standard error."""
    return contextlib.redirect_stdout(sys.stderr) if json == "-" else contextlib.nullcontext()


def _show_users_error(error: BaseException) -> int:
    """The user's own traceback, as Python would show it, without the frames that are ours."""
    seen: set[int] = set()
    part: BaseException | None = error
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        part.__traceback__ = _behind_ours(part.__traceback__)
        part = part.__cause__ or part.__context__
    traceback.print_exception(error)
    return _USERS_ERROR


def _behind_ours(frames: TracebackType | None) -> TracebackType | None:
    """What of a traceback comes behind the last frame of ours, and of importing for us."""
    rest, at = frames, frames
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        at = at.tb_next
        if file.startswith(_OUR_FOLDER) and not file.startswith(_DEMO_FOLDER):
            rest = at
    while rest is not None and _IMPORTLIB.search(rest.tb_frame.f_code.co_filename):
        rest = rest.tb_next
    return rest
