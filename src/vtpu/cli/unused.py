"""The report of a program that did not use the slice, so that nothing was recorded."""

from __future__ import annotations

import platform
import time
from importlib.metadata import version

from vtpu.analysis.run.summary import summarize
from vtpu.chips import Slice
from vtpu.recording.recording import DeviceRecord, Recording, RunRecord
from vtpu.report.json_output import run_as_json, write_json
from vtpu.units import GIB

_PROBLEM = "the program ended without using the TPU: nothing was recorded"


def report_unused(
    asked: str,
    wanted: Slice,
    host: int,
    command: tuple[str, ...],
    exit_code: int,
    json: str,
    others: tuple[str, ...],
) -> None:
    """Writes the JSON report of such a run: the slice, the command, and that nothing happened.

    `others`: where the processes that it started recorded.

    Raises:
        UsageError: the file cannot be written.
    """
    chip = wanted.generation.chip
    per_host = wanted.devices_per_host
    run = RunRecord(
        slice=wanted.name,
        slice_asked=asked,
        host=host,
        num_hosts=wanted.num_hosts,
        devices=tuple(
            DeviceRecord(id=i, host=i // per_host, kind=chip.device_kind.value)
            for i in range(wanted.num_devices)
        ),
        hbm_bytes=int(chip.hbm_limit_gib_per_device.value * GIB),
        platform_version="",
        versions={"vtpu": version("vtpu"), "python": platform.python_version()},
        command=command,
        folder="",
        started_unix_s=time.time(),
    )
    nothing = Recording(run=run, exit_code=exit_code, problems=(_PROBLEM,))
    write_json(run_as_json(summarize(nothing, others)), json)
