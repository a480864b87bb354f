"""Compares what a program computes as it is and as changes have it, on this machine.

A function is computed on the CPU with made-up inputs. Of a script is compared what it prints, where the
virtual slice could compute every value that it read.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from vtpu.changes.outcome import Comparison, Results
from vtpu.changes.situation import Situation
from vtpu.changes.target import FixTarget
from vtpu.fixing.execution import ExecutionSpec
from vtpu.fixing.processes import Processes, read_text
from vtpu.fixing.verification import Variant, why_it_ended

_MOST_DEVICES = 16
_TOLERANCE = 1e-3  # relative to the largest value of an array; sums in another order are within
_SMALL_FLOATS = 3e-2  # of types of 16 bits and fewer
_SCRIPT_BUDGET = "200GFLOP,64GiB,60s"
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class _Computed:
    """What a variant gave: arrays, or text that it printed; or why there is neither."""

    arrays: tuple[np.ndarray, ...] = ()
    small: tuple[bool, ...] = ()  # which had fewer than 32 bits
    printed: str = ""
    said: str = ""
    why_not: str = ""


def compare_results(
    variants: Mapping[int, Variant],
    target: FixTarget,
    situation: Situation,
    processes: Processes,
    limit_s: float,
) -> dict[int, Comparison]:
    """How the results of each variant compare with those of the program as it is, in `limit_s` altogether."""
    with tempfile.TemporaryDirectory(prefix="vtpu-results-") as name:
        computing = _Computing(target, situation, processes, Path(name), limit_s)
        before = computing.results(0, Variant())
        if before.why_not:
            why = Comparison(results=Results.NOT_COMPARED, detail=before.why_not)
            return dict.fromkeys(variants, why)
        return {n: compare(before, computing.results(n, v)) for n, v in variants.items()}


class _Computing:
    """Computes variants of one program."""

    def __init__(
        self,
        target: FixTarget,
        situation: Situation,
        processes: Processes,
        folder: Path,
        limit_s: float,
    ) -> None:
        self._target, self._situation = target, situation
        self._processes, self._folder = processes, folder
        self._until = time.monotonic() + limit_s

    def results(self, number: int, variant: Variant) -> _Computed:
        """What a variant gives."""
        return self._script(number, variant) if self._target.is_script else self._function(number, variant)  # fmt: skip

    def _function(self, number: int, variant: Variant) -> _Computed:
        devices = self._situation.slice.num_devices
        if devices > _MOST_DEVICES:
            return _Computed(why_not=f"{devices} devices are too many to compute on this machine")
        modelled = self._situation.program.report.time
        on = self._situation.program.report.origin.num_devices or 1
        spec = ExecutionSpec(
            target=self._target.name,
            arguments=self._target.arguments,
            texts=dict(variant.texts),
            changes=variant.arguments,
            flops=float(modelled.time.flops * on) if modelled else None,
        )
        given, answer = self._folder / f"{number}.json", self._folder / f"{number}.npz"
        given.write_bytes(TypeAdapter(ExecutionSpec).dump_json(spec))
        words = [sys.executable, "-m", "vtpu.fixing.execution", str(given), str(answer)]
        flags = (
            f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
        )
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()}
        environment.pop("VTPU_ON", None)
        limit_s = self._left_s()
        ended = self._processes.run(words, self._target.folder, environment, limit_s)
        if not answer.exists():
            return _Computed(why_not=f"on the CPU {why_it_ended(ended, limit_s)}")
        return _read(answer)

    def _left_s(self) -> float:
        return max(1.0, self._until - time.monotonic())

    def _script(self, number: int, variant: Variant) -> _Computed:
        texts, report = self._folder / f"{number}.texts", self._folder / f"{number}.report"
        texts.write_text(json.dumps(dict(variant.texts)), encoding="utf-8")
        words = [
            *(sys.executable, "-m", "vtpu", "run", "--on", self._situation.slice.name),
            *("--out", str(self._folder / f"{number}.vtpu"), "--json", str(report)),
            *("--values", "auto", "--values-budget", _SCRIPT_BUDGET),
            *("-m", "vtpu.fixing.overlay", str(texts)),
            *(self._target.name, *self._target.script_arguments),
        ]
        environment = {**os.environ, **dict(variant.environment)}
        limit_s = self._left_s()
        ended = self._processes.run(words, self._target.folder, environment, limit_s)
        text = read_text(report)
        if not text:
            return _Computed(why_not=why_it_ended(ended, limit_s))
        found = json.loads(text)
        if found["fabricated_values"]:
            why = found["fabricated_values"][0]["why"]
            return _Computed(why_not=f"values that it reads could not be computed here: {why}")
        printed = ended.stdout.partition("vtpu report\n")[0]
        if not _NUMBER.search(printed):
            return _Computed(why_not="the script prints no numbers")
        return _Computed(printed=printed, said="what the script prints, its values computed")


def _read(path: Path) -> _Computed:
    with np.load(path) as found:
        if "why_not" in found:
            return _Computed(why_not=str(found["why_not"]))
        small = tuple(found["small"].tolist())
        arrays = tuple(found[f"r{i}"] for i in range(len(small)))
        return _Computed(arrays=arrays, small=small, said=str(found["said"]))


def compare(before: _Computed, after: _Computed) -> Comparison:
    """How two sets of results compare."""
    if after.why_not:
        return Comparison(results=Results.NOT_COMPARED, detail=after.why_not)
    if before.printed:
        return _compare_printed(before, after)
    shapes = [[a.shape for a in c.arrays] for c in (before, after)]
    if shapes[0] != shapes[1]:
        return Comparison(results=Results.DIFFERENT, detail="the results have other shapes")
    pairs = zip(before.arrays, after.arrays, before.small, strict=True)
    rows = [(_distance(a, b), _SMALL_FLOATS if small else _TOLERANCE) for a, b, small in pairs]
    return _judge(rows, after)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference relative to the largest value."""
    if a.tobytes() == b.tobytes():
        return 0.0
    one, other = (np.asarray(x, np.float64) for x in (a, b))
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return np.inf
    difference = np.nan_to_num(np.abs(one - other), posinf=0.0)
    largest = np.abs(np.nan_to_num(one, posinf=0.0, neginf=0.0)).max(initial=0.0)
    return float(difference.max(initial=0.0) / (largest or 1.0))


def _judge(distances: list[tuple[float, float]], after: _Computed) -> Comparison:
    largest = max((d for d, _ in distances), default=0.0)
    if largest == 0.0:
        results = Results.IDENTICAL
    elif all(d <= allowed for d, allowed in distances):
        results = Results.TOLERANCE
    else:
        results = Results.DIFFERENT
    return Comparison(results=results, largest=largest, detail=after.said)


def _compare_printed(before: _Computed, after: _Computed) -> Comparison:
    if before.printed == after.printed:
        return Comparison(results=Results.IDENTICAL, largest=0.0, detail=after.said)
    numbers = [[float(n) for n in _NUMBER.findall(c.printed)] for c in (before, after)]
    if len(numbers[0]) != len(numbers[1]):
        return Comparison(results=Results.DIFFERENT, detail="it prints other lines")
    pairs = zip(*numbers, strict=True)
    distances = [(abs(a - b) / (abs(a) or 1.0), _TOLERANCE) for a, b in pairs]
    return _judge(distances, after)
