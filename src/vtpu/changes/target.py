"""What a fix is for: a script that runs, or a function that compiles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vtpu.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class FixTarget:
    """A script with its arguments, or a function (`train:step`) with the name of its arguments.

    `folder` is where it runs.
    """

    name: str
    folder: str
    script_arguments: tuple[str, ...] = ()
    arguments: str | None = None

    @property
    def is_script(self) -> bool:
        """Whether it is a script."""
        return self.function is None

    @property
    def function(self) -> str | None:
        """The function's name in its module, `step` or `Trainer.step`."""
        module, _, function = self.name.rpartition(":")
        return function if module and function.replace(".", "").isidentifier() else None


def read_target(
    name: str, folder: str, script_arguments: tuple[str, ...] = (), arguments: str | None = None
) -> FixTarget:
    """The target that a command line names.

    Raises:
        UsageError: it is neither, is not there, or has arguments of the other kind.
    """
    target = FixTarget(
        name=name, folder=folder, script_arguments=script_arguments, arguments=arguments
    )
    if target.is_script and not name.endswith(".py"):
        raise UsageError(
            f"{name!r} is no script and no function. Write `train.py` or `train:step`."
        )
    if target.is_script and not Path(folder, name).is_file():
        raise UsageError(f"there is no script {name} in {folder}.")
    if target.is_script and arguments:
        raise UsageError(
            "--args names the arguments of a function; a script takes its own behind it."
        )
    if script_arguments and not target.is_script:
        raise UsageError(f"{name} is a function: name its arguments with --args.")
    return target
