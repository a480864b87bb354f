"""What the environment says about the virtual slice. Read once, when the slice is attached."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TypeVar

from vtpu.errors import UsageError
from vtpu.units import parse_bytes
from vtpu.values.budget import DEFAULT_BUDGET, Budget, Mode, Unknown, parse_budget

_Choice = TypeVar("_Choice", bound=StrEnum)
_Number = TypeVar("_Number", int, float)

DEFAULT_SLICE = "v5e-16"

SLICE, HOST, OUT, REPORT = "VTPU_ON", "VTPU_HOST", "VTPU_OUT", "VTPU_REPORT"
OUT_CLAIMED_FOR = "VTPU_OUT_CLAIMED_BY"  # the process that made the file for its child
RUN = "VTPU_RUN"  # which `vtpu run` this process belongs to, with the time when that began
CACHE_FOLDER, CACHE_LIMIT = "VTPU_CACHE_DIR", "VTPU_CACHE_LIMIT_BYTES"
COMPILE_TIMEOUT, WORKERS = "VTPU_COMPILE_TIMEOUT", "VTPU_COMPILE_WORKERS"
VALUES, VALUES_BUDGET, UNKNOWN = "VTPU_VALUES", "VTPU_VALUES_BUDGET", "VTPU_UNKNOWN"
PACE, HOST_SPEED = "VTPU_PACE", "VTPU_HOST_SPEED"
VALUES_MEMORY, VALUES_DISK = "VTPU_VALUES_MEMORY_BYTES", "VTPU_VALUES_DISK_BYTES"


@dataclass(frozen=True, slots=True)
class RunName:
    """One `vtpu run`, as the environment names it to every process that it leads to."""

    pid: int
    began_unix_s: float

    def __str__(self) -> str:
        return f"{self.pid}@{self.began_unix_s!r}"


def run_of(environment: Mapping[str, str] = os.environ) -> RunName | None:
    """The `vtpu run` that this process belongs to."""
    pid, _, began = environment.get(RUN, "").partition("@")
    return RunName(int(pid), float(began)) if began else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The slice's name, which host of it this process is, and where things go.

    `out` is the recording's file, None for a temporary one; `out_is_claimed`: the parent process
    made it for this one. `run` is the `vtpu run` that this process belongs to, if any.
    `prints_report`: at exit, on standard error. `compile_timeout_s`: how long libtpu may take for one
    program. `values_memory_bytes`, `values_disk_bytes`: what contents of arrays may take; None: a part
    of what the machine has. `pace`: the program really waits for the slice. `host_speed`: how many times as fast the slice's host computes as this one.
    """

    slice: str = DEFAULT_SLICE
    host: int = 0
    out: Path | None = None
    out_is_claimed: bool = False
    run: RunName | None = None
    prints_report: bool = True
    cache_folder: Path
    cache_limit_bytes: int = 4 << 30
    compile_timeout_s: float = 3600.0
    workers: int = 1
    values: Mode = Mode.AUTO
    values_budget: Budget = DEFAULT_BUDGET
    unknown: Unknown = Unknown.ZEROS
    values_memory_bytes: int | None = None
    values_disk_bytes: int | None = None
    pace: bool = False
    host_speed: float = 1.0

    def __post_init__(self) -> None:
        """Raises UsageError for a speed that is none, and for settings that exclude each other."""
        parse_host_speed(f"{self.host_speed:g}", "host_speed")
        refuse_pace_of_another_host(self.pace, self.host_speed)


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings that `environment` holds.

    Raises:
        UsageError: a number or a size that is none.
    """
    out = environment.get(OUT)
    return Settings(
        slice=environment.get(SLICE) or DEFAULT_SLICE,
        host=_whole_number(environment, HOST, 0),
        out=Path(out) if out else None,
        out_is_claimed=environment.get(OUT_CLAIMED_FOR) == str(os.getppid()),
        run=run_of(environment),
        prints_report=environment.get(REPORT, "on") not in ("off", "0", "none"),
        cache_folder=_cache_folder(environment),
        cache_limit_bytes=_size(environment, CACHE_LIMIT, 4 << 30),
        compile_timeout_s=_seconds(environment, COMPILE_TIMEOUT, 3600),
        workers=max(1, _whole_number(environment, WORKERS, 1)),
        values=_choice(environment, VALUES, Mode.AUTO),
        values_budget=parse_budget(budget)
        if (budget := environment.get(VALUES_BUDGET))
        else DEFAULT_BUDGET,
        unknown=_choice(environment, UNKNOWN, Unknown.ZEROS),
        values_memory_bytes=_optional_size(environment, VALUES_MEMORY),
        values_disk_bytes=_optional_size(environment, VALUES_DISK),
        pace=_switch(environment, PACE),
        host_speed=parse_host_speed(environment.get(HOST_SPEED), HOST_SPEED),
    )


def _switch(environment: Mapping[str, str], name: str) -> bool:
    """Whether a setting is on; without it, it is off."""
    text = environment.get(name, "").lower()
    if text in ("", "off", "0", "none", "false", "no"):
        return False
    if text in ("on", "1", "true", "yes"):
        return True
    raise UsageError(f"{name}={environment[name]} is neither on nor off.")


_FASTEST_HOST = 1000.0  # relative to this machine, and so is the slowest


def parse_host_speed(text: str | None, name: str) -> float:
    """A speed of the slice's host relative to this machine; 1 without one. `inf`: it takes no time.

    Raises:
        UsageError: `text`, which `name` was set to, is no speed of a computer.
    """
    try:
        speed = float(text) if text else 1.0
    except ValueError:
        speed = 0.0
    if 1 / _FASTEST_HOST <= speed <= _FASTEST_HOST or speed == inf:
        return speed
    raise UsageError(
        f"{name}={text} is no speed: write 2 for a host that computes twice as fast as this machine, "
        "0.5 for half as fast, inf for one that takes no time."
    )


def refuse_pace_of_another_host(pace: bool, host_speed: float) -> None:
    """Raises UsageError when a program is to wait for a slice whose host is not this machine."""
    if pace and host_speed != 1:
        raise UsageError(
            "With --pace the program really runs on this machine, at its speed, so --host-speed can "
            "change nothing then. Run without --pace, or ask of the recording afterwards: "
            f"`vtpu show run.vtpu --host-speed {host_speed:g}`."
        )


def is_asked_for(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for a virtual slice.

    The name of a slice alone does, unless JAX is told to use only other platforms.
    """
    platforms = environment.get("JAX_PLATFORMS", "").split(",")
    return "vtpu" in platforms or (
        SLICE in environment and ("tpu" in platforms or platforms == [""])
    )


def _whole_number(environment: Mapping[str, str], name: str, default: int) -> int:
    return _parse(environment, name, default, int, "a whole number")


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    return _parse(environment, name, default, float, "a number of seconds")


def _optional_size(environment: Mapping[str, str], name: str) -> int | None:
    return _size(environment, name, 0) if environment.get(name) else None


def _size(environment: Mapping[str, str], name: str, default: int) -> int:
    return _parse(environment, name, default, parse_bytes, "a size: write 4GiB, 900MB or 512")


def _parse(
    environment: Mapping[str, str],
    name: str,
    default: _Number,
    parse: Callable[[str], _Number],
    wanted: str,
) -> _Number:
    text = environment.get(name)
    if not text:
        return default
    try:
        return parse(text)
    except ValueError:
        raise UsageError(f"{name}={text!r} is not {wanted}.") from None


def _choice(environment: Mapping[str, str], name: str, default: _Choice) -> _Choice:
    text = environment.get(name)
    if not text:
        return default
    try:
        return type(default)(text)
    except ValueError:
        allowed = ", ".join(type(default))
        raise UsageError(f"{name}={text!r} is none of {allowed}.") from None


def _cache_folder(environment: Mapping[str, str]) -> Path:
    if folder := environment.get(CACHE_FOLDER):
        return Path(folder)
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "vtpu"
