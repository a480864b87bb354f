"""`vtpu check`: does a function fit a slice, and where does every byte of its memory go."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from vtpu.cli.options import Json, On
from vtpu.device import settings as names
from vtpu.errors import CompilerDied

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


def _check(name: str, on: str, arguments: str | None, json: str | None) -> int:
    from vtpu.checks.check import check
    from vtpu.checks.compiling import CompileFailed
    from vtpu.checks.targets import TargetFailed, load_target
    from vtpu.plugin import attach
    from vtpu.report.program_json import program_as_json
    from vtpu.report.program_report import program_document
    from vtpu.report.text import print_document

    attach(on, report=False, values="zeros")
    try:
        target = load_target(name, arguments)
        found = check(target.function, *target.args, on=on, **target.kwargs)
    except TargetFailed as failed:
        return _show_users_error(failed.__cause__ or failed)
    except (CompileFailed, CompilerDied) as failure:
        print(f"vtpu: {failure}", file=sys.stderr)
        return _COMPILER_FAILED
    if json != "-":
        print_document(program_document(found.report), sys.stdout)
    if json:
        from vtpu.report.json_output import write_json

        write_json(program_as_json(found.report), json)
    return 0 if found.fits else _DOES_NOT_FIT


def _show_users_error(error: BaseException) -> int:
    """The user's own traceback, as Python would show it, without the frames that are ours."""
    traceback.print_exception(error)
    return _USERS_ERROR
