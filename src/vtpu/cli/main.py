"""The entry of the `vtpu` command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from vtpu.cli import check, demo, diff, explain, fix, replay, rules, run, show, slices, trace
from vtpu.errors import VtpuError

_VALUE_OPTIONS = {
    "--on", "--host", "--out", "--json", "--values", "--values-budget", "--unknown", "--host-speed",
    "--xprof", "--perfetto",
}  # fmt: skip

app = typer.Typer(
    name="vtpu",
    help="A virtual TPU: run an unmodified JAX program on any TPU slice, on a CPU box.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", context_settings=run.CONTEXT)(run.run_command)
app.command("demo")(demo.demo_command)
app.command("show")(show.show_command)
app.command("check")(check.check_command)
app.command("explain")(explain.explain_command)
app.command("diff")(diff.diff_command)
app.command("replay")(replay.replay_command)
app.command("trace")(trace.trace_command)
app.command("rules")(rules.rules_command)
app.command("fix")(fix.fix_command)
app.command("slices")(slices.slices_command)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"vtpu {version('vtpu')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Options of the command itself."""


def main(arguments: list[str] | None = None) -> None:
    """Runs the command. What goes wrong in a known way is one message and exit code 2."""
    given = protect_module_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        app(given)
    except VtpuError as error:
        print(f"vtpu: {error}", file=sys.stderr)
        sys.exit(2)


def protect_module_arguments(arguments: list[str]) -> list[str]:
    """`run … -m MODULE rest` with everything behind the module marked as the module's own.

    As with `python -m`, options behind the module's name are not ours.
    """
    if arguments[:1] != ["run"]:
        return arguments
    i = 1
    while i < len(arguments) and arguments[i].startswith("-") and arguments[i] != "--":
        if arguments[i] == "-m":
            return [*arguments[: i + 2], "--", *arguments[i + 2 :]]
        i += 2 if arguments[i] in _VALUE_OPTIONS else 1
    return arguments
