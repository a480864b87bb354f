"""Measures a program as changes have it: a function is compiled, a script is run, in a fresh process.

What it measures with is `vtpu check` and `vtpu run`, as people use them; it knows nothing of why a change
was proposed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vtpu.changes.change import ArgumentChange
from vtpu.changes.outcome import Figures
from vtpu.changes.target import FixTarget
from vtpu.fixing.processes import Ended, Processes, read_text
from vtpu.fixing.trial import TrialResult, TrialSpec

_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*", re.MULTILINE)
_PLACE = re.compile(  # of no library's
    r'^ *File "((?![^"]*(?:site-packages|<frozen))[^"]+)", line (\d+)', re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A program to measure: the texts of edited files, arguments and settings that differ."""

    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    arguments: tuple[ArgumentChange, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


class Verifier:
    """Measures variants of one program on one slice. `folder` holds what trials leave."""

    def __init__(self, target: FixTarget, slice_name: str, processes: Processes) -> None:
        self._target = target
        self._slice = slice_name
        self._processes = processes
        self._folder = tempfile.TemporaryDirectory(prefix="vtpu-fix-")
        self._lock = threading.Lock()
        self.trials = 0
        self.compiles = 0

    def close(self) -> None:
        """Removes what trials left."""
        self._folder.cleanup()

    def measure(self, variant: Variant, limit_s: float) -> TrialResult:
        """What a variant needs."""
        return self.measure_and_keep(variant, limit_s)[0]

    def measure_and_keep(self, variant: Variant, limit_s: float) -> tuple[TrialResult, Path]:
        """The same, with the recording that it left."""
        with self._lock:
            self.trials += 1
            folder = Path(self._folder.name, str(self.trials))
        folder.mkdir()
        measured = self._run if self._target.is_script else self._compile
        result = measured(variant, folder, limit_s)
        with self._lock:
            self.compiles += result.new_compiles
        return result, folder / "run.vtpu"

    def _compile(self, variant: Variant, folder: Path, limit_s: float) -> TrialResult:
        spec = TrialSpec(
            target=self._target.name,
            arguments=self._target.arguments,
            slice=self._slice,
            texts=dict(variant.texts),
            changes=variant.arguments,
            recording=str(folder / "run.vtpu"),
        )
        given, answer = folder / "spec.json", folder / "result.json"
        given.write_bytes(TypeAdapter(TrialSpec).dump_json(spec))
        words = [sys.executable, "-m", "vtpu.fixing.trial", str(given), str(answer)]
        ended = self._processes.run(words, self._target.folder, _environment(variant), limit_s)
        if text := read_text(answer):
            return TypeAdapter(TrialResult).validate_json(text)
        return _without_figures(ended, limit_s)

    def _run(self, variant: Variant, folder: Path, limit_s: float) -> TrialResult:
        texts, report = folder / "texts.json", folder / "report.json"
        texts.write_text(json.dumps(dict(variant.texts)), encoding="utf-8")
        words = [
            *(sys.executable, "-m", "vtpu", "run", "--on", self._slice),
            *("--out", str(folder / "run.vtpu"), "--json", str(report), "--values", "zeros"),
            *("--host-speed", "inf"),  # what else this machine does is no reason for a change
            *("-m", "vtpu.fixing.overlay", str(texts)),
            *(self._target.name, *self._target.script_arguments),
        ]
        ended = self._processes.run(words, self._target.folder, _environment(variant), limit_s)
        if text := read_text(report):
            found = json.loads(text)
            new = sum(program["compiles"] - program["from_cache"] for program in found["programs"])
            return TrialResult(figures=figures_of_run(found, ended), new_compiles=new)
        return _without_figures(ended, limit_s)


def figures_of_run(report: Mapping[str, Any], ended: Ended) -> Figures:
    """The figures of a script from the report that `vtpu run --json` wrote."""
    refused = [
        compiled["out_of_memory"]
        for program in report["programs"]
        for compiled in program["compilations"]
        if compiled["out_of_memory"]
    ]
    failures: Sequence[Mapping[str, Any]] = report["failures"]
    lacked_memory = bool(refused or failures)
    time = report["time"]
    step = time["step"] if time else None
    steps = step["steps"] if step else None
    error = None
    if ended.exit_code and not lacked_memory:
        error = why_it_ended(ended, 0.0)
    compiles = [c for program in report["programs"] for c in program["compilations"]]
    return Figures(
        fits=None if error else not lacked_memory,
        peak_bytes=_peak(report, refused, failures),
        limit_bytes=max((d["limit_bytes"] for d in report["hbm"]), default=None),
        step_s=steps["median_s"] if steps else None,
        step_low_s=step["low_s"] if step else None,
        step_high_s=step["high_s"] if step else None,
        is_lower_bound=step["is_lower_bound"] if step else False,
        compile_s=sum(c["compile_s"] or 0.0 for c in compiles),
        compiles=len(compiles),
        to_device_bytes=steps["to_device"]["bytes"] if steps else None,
        to_host_bytes=steps["from_device"]["bytes"] if steps else None,
        error=error,
    )


def _peak(
    report: Mapping[str, Any],
    refused: Sequence[Mapping[str, Any]],
    failures: Sequence[Mapping[str, Any]],
) -> int | None:
    """HBM at its peak; of what did not fit what it would have taken."""
    peaks = [d["peak_bytes"] for d in report["hbm"]]
    needs = [r["need_bytes"] for r in refused if r["need_bytes"]]
    limits = {d["device"]: d["limit_bytes"] for d in report["hbm"]}
    asked = [limits[f["device"]] - f["free_bytes"] + f["wanted_bytes"] for f in failures]
    return max([*peaks, *needs, *asked], default=None)


def _environment(variant: Variant) -> dict[str, str]:
    ours = {"VTPU_REPORT": "off", "VTPU_VALUES": "zeros"}
    return {**os.environ, **ours, **dict(variant.environment)}


def _without_figures(ended: Ended, limit_s: float) -> TrialResult:
    error, is_cut = why_it_ended(ended, limit_s), ended.exit_code is None
    return TrialResult(figures=Figures(fits=None, error=error, is_cut=is_cut))


def why_it_ended(ended: Ended, limit_s: float) -> str:
    """Why a process left no figures, on one line; of an exception with the line that raised it."""
    if ended.exit_code is None:
        return f"the time was up after {limit_s:.0f} s of it" if limit_s else "it was stopped"
    lines = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
    raised = _RAISED.findall(ended.stderr)  # JAX says something behind it
    said = raised[-1] if raised else lines[-1] if lines else "nothing"
    places = _PLACE.findall(ended.stderr)
    place = f" ({places[-1][0]}:{places[-1][1]})" if places else ""
    return f"it ended with exit code {ended.exit_code} and said: {said}{place}"[:600]
