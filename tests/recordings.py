"""Small recordings for tests, written by hand: events as keyword arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtpu.recording.events import EVENT_DTYPE, EventKind
from vtpu.recording.recording import (
    DeviceRecord,
    ProgramRecord,
    Recording,
    RunRecord,
    ShapeRecord,
    StackFrame,
)

LIMIT = 10_000
LIBRARY = "/venv/lib/python3/site-packages/jax/_src/api.py"


def run_record(num_devices: int = 1, **fields: Any) -> RunRecord:
    """A run on one host of `num_devices` chips with a little HBM."""
    values: dict[str, Any] = {
        "slice": "v5e:2x4",
        "slice_asked": "v5e-8",
        "host": 0,
        "num_hosts": 1,
        "devices": tuple(
            DeviceRecord(id=i, host=0, kind="TPU v5 lite") for i in range(num_devices)
        ),
        "hbm_bytes": LIMIT,
        "platform_version": "TFRT TPU v5 lite",
        "versions": {"jax": "0.10.2"},
        "command": ("python", "train.py"),
        "folder": "/project",
        "started_unix_s": 0.0,
        "library_folders": ("/venv/lib/python3",),
        "function_names": ("PJRT_First", "PJRT_Second"),
    }
    return RunRecord(**{**values, **fields})


def events(*rows: dict[str, Any]) -> np.ndarray:
    """Events; fields that a row does not name are 0, times count up."""
    out = np.zeros(len(rows), EVENT_DTYPE)
    out["time_ns"] = np.arange(len(rows))
    for i, row in enumerate(rows):
        for name, value in row.items():
            out[name][i] = value
    return out


def allocate(buffer: int, size: int, **fields: Any) -> dict[str, Any]:
    """A buffer of `size` bytes comes."""
    return {"kind": EventKind.ALLOCATE, "subject": buffer, "bytes": size, **fields}


def free(buffer: int, size: int, **fields: Any) -> dict[str, Any]:
    """A buffer goes."""
    return {"kind": EventKind.FREE, "subject": buffer, "bytes": size, **fields}


def execute(program: int, temp: int = 0, **fields: Any) -> dict[str, Any]:
    """A program runs with `temp` bytes of temporaries."""
    return {"kind": EventKind.EXECUTE, "program": program, "bytes": temp, "device": -1, **fields}


def program(number: int, name: str = "jit_step", **fields: Any) -> ProgramRecord:
    """A program on device 0."""
    values: dict[str, Any] = {"key": f"key{number}", "stack": 0, "device_ids": (0,), **fields}
    return ProgramRecord(number=number, name=name, **values)


def stack(*lines: tuple[str, int]) -> tuple[StackFrame, ...]:
    """A stack of (file, line), innermost first."""
    return tuple(StackFrame(file, "f", line) for file, line in lines)


def recording(*rows: dict[str, Any], **parts: Any) -> Recording:
    """A recording of `rows`; `parts` are further fields of `Recording`."""
    values: dict[str, Any] = {
        "run": run_record(),
        "stacks": (stack((LIBRARY, 5), ("/project/train.py", 12)), stack(("/project/data.py", 3))),
        "shapes": (ShapeRecord(11, (8, 128), "{1,0:T(8,128)}", 4096, 4096),),
        "programs": (program(1),),
        "events": events(*rows),
    }
    return Recording(**{**values, **parts})
