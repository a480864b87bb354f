"""One trial of a function: compiles it as edited, in a process of its own, and writes what it needs.

python -m vtpu.fixing.trial SPEC.json RESULT.json
"""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from vtpu.changes.change import ArgumentChange
from vtpu.changes.outcome import Figures
from vtpu.changes.situation import ArgumentLeaf
from vtpu.errors import VtpuError
from vtpu.fixing.overlay import import_as_edited


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """What to compile: a function by name, files with the texts that they are to have, arguments."""

    target: str
    arguments: str | None
    slice: str
    texts: dict[str, str]
    changes: tuple[ArgumentChange, ...] = ()
    recording: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What the compiler said, how many programs it compiled anew, and the arguments of a function."""

    figures: Figures
    new_compiles: int = 0
    arguments: tuple[ArgumentLeaf, ...] = ()


def try_function(spec: TrialSpec) -> TrialResult:
    """Compiles the function. What the user's code or the compiler refuses is an error in the figures."""
    import_as_edited(spec.texts)
    from vtpu.checks.check import check_call
    from vtpu.checks.targets import TargetFailed, load_target
    from vtpu.plugin import attach

    attach(spec.slice, report=False, values="zeros", out=spec.recording)
    import jax

    from vtpu.fixing.arguments import change_arguments, describe_arguments

    try:
        target = load_target(spec.target, spec.arguments)
        given = target.function, target.args, target.kwargs
        args, kwargs = change_arguments(*given, spec.changes, jax.devices())
        found = check_call(target.function, args, kwargs, spec.slice)
    except Exception as error:  # what is edited raises what it likes: it is this trial's answer
        cause = error.__cause__ if isinstance(error, TargetFailed) else None
        return TrialResult(figures=Figures(fits=None, error=_said(cause or error)))
    time = found.time
    figures = Figures(
        fits=found.fits,
        peak_bytes=found.need_bytes,
        limit_bytes=found.limit_bytes,
        step_s=time.seconds if time else None,
        step_low_s=time.time.total.low if time else None,
        step_high_s=time.time.total.high if time else None,
        is_lower_bound=time.time.is_lower_bound if time else False,
        compile_s=found.report.origin.compile_s,
        compiles=1,
    )
    new = 0 if found.report.origin.was_known else 1
    leaves = tuple(describe_arguments(*given))
    return TrialResult(figures=figures, new_compiles=new, arguments=leaves)


def _said(error: BaseException) -> str:
    """What an exception says, on one line, with the line of the user's program that raised it, or else the last."""
    text = " ".join(str(error).split())
    if isinstance(error, VtpuError):
        return text[:600]
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if _is_own(Path(f.filename))]
    last = (own or list(frames))[-1:]
    place = f" ({last[0].filename}:{last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {text}{place}"[:600]


def _is_own(file: Path) -> bool:
    """Whether a file is of the folder that the trial runs in, and of no environment in it."""
    return file.is_relative_to(Path.cwd()) and "site-packages" not in file.parts


def main(spec_file: str, result_file: str) -> None:
    """Tries what a file says, and writes what came of it to another one."""
    spec = TypeAdapter(TrialSpec).validate_json(Path(spec_file).read_bytes())
    with contextlib.redirect_stdout(sys.stderr):  # what the user's module prints is no answer
        result = try_function(spec)
    value = TypeAdapter(TrialResult).dump_python(result, mode="json")
    Path(result_file).write_text(json.dumps(value), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])
