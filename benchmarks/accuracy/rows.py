"""Published measurements with the compiled programs that they timed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from benchmarks.models import CompiledStep, compile_step, from_calibration
from jax.sharding import SingleDeviceSharding

from vtpu.analysis.time.programs import machine_of_slice
from vtpu.checks.compiling import compile_program, start_compiling_anew
from vtpu.chips import Slice, parse_slice
from vtpu.clock.calibrations import Calibration
from vtpu.clock.facts import Facts
from vtpu.clock.program import program_time
from vtpu.clock.program_time import ProgramTime
from vtpu.device.attach import compiling_session, devices_to_compile_for
from vtpu.reading.modules import read_wrapped_module

_ONE_CHIP = {"v5p": "1x1x1", "v4": "1x1x1", "tpu7x": "1x1x1"}
_DTYPES = {
    "bf16": "bfloat16",
    "fp32": "float32",
    "f32": "float32",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
}
_PROGRAM, _NOTES = ".hlo.pb", ".json"


class CannotPredict(Exception):
    """A row whose program cannot be built or does not compile; says why."""


@dataclass(frozen=True, eq=False)
class Row:
    """A measurement and its program. `seconds` is what the program as compiled would have taken.

    Where a step fits only with a smaller batch, the published rate is kept: `seconds` is less in the
    same proportion, and `note` says so.
    """

    id: str
    kind: str
    slice: Slice
    seconds: float
    hlo: bytes
    note: str
    memory: Mapping[str, int]

    @cached_property
    def facts(self) -> Facts:
        """What the program's time depends on."""
        return Facts(read_wrapped_module(self.hlo))

    def predict(self, calibration: Calibration | None = None) -> ProgramTime:
        """The modelled time, with the constants that are shipped or with others."""
        machine = machine_of_slice(self.slice, calibration)
        return program_time(self.facts.module, machine, self.facts)


@dataclass(frozen=True, slots=True)
class Measurements:
    """A file of measurements: its rows, models and groups of flags."""

    rows: tuple[Mapping[str, Any], ...]
    models: Mapping[str, Any]
    flag_groups: Mapping[str, str]


def read_measurements(path: Path) -> Measurements:
    """A file in the form of `measurements.json`.

    Raises:
        OSError, ValueError, KeyError: there is none or it has another form.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    return Measurements(
        tuple(found["rows"]), found.get("models", {}), found.get("xla_flag_groups", {})
    )


def load_row(given: Mapping[str, Any], measured: Measurements, programs: Path | None) -> Row:
    """A row with its program, compiled or from the folder `programs`, where it is then kept.

    Raises:
        CannotPredict: there is no program; says why.
    """
    kept = programs / given["id"] if programs else None
    if kept is None or not kept.with_name(kept.name + _PROGRAM).exists():
        hlo, notes = _compile(given, measured)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.with_name(kept.name + _NOTES).write_text(json.dumps(notes), "utf-8")
            kept.with_name(kept.name + _PROGRAM).write_bytes(hlo)
    else:
        hlo = kept.with_name(kept.name + _PROGRAM).read_bytes()
        notes = json.loads(kept.with_name(kept.name + _NOTES).read_text("utf-8"))
    return _row(given, hlo, notes)


def _row(given: Mapping[str, Any], hlo: bytes, notes: Mapping[str, Any]) -> Row:
    dropped = notes.get("dropped") or ()
    says = (
        [f"batch {notes['batch']} of {given['per_device_batch']}"] if _is_less(given, notes) else []
    )
    says += [f"{len(dropped)} flags dropped"] if dropped else []
    return Row(
        id=given["id"],
        kind=given["kind"],
        slice=parse_slice(notes["slice"]),
        seconds=_measured_seconds(given) * _proportion(given, notes),
        hlo=hlo,
        note=", ".join(says),
        memory={k: v for k, v in notes.items() if k.endswith("_bytes")},
    )


def _is_less(given: Mapping[str, Any], notes: Mapping[str, Any]) -> bool:
    return bool(notes.get("batch")) and notes["batch"] != given["per_device_batch"]


def _proportion(given: Mapping[str, Any], notes: Mapping[str, Any]) -> float:
    return notes["batch"] / given["per_device_batch"] if notes.get("batch") else 1.0


def _measured_seconds(given: Mapping[str, Any]) -> float:
    for name, unit in (("time_us", 1e-6), ("step_time_s", 1.0), ("step_time_s_derived", 1.0)):
        if name in given:
            return float(given[name]) * unit
    raise CannotPredict("it has no time")


def _compile(given: Mapping[str, Any], measured: Measurements) -> tuple[bytes, dict[str, Any]]:
    if given["kind"] == "matmul":
        return _compile_product(given)
    if given["kind"] == "train_step":
        return _compile_step(given, measured)
    raise CannotPredict(f"nothing is known of measurements of the kind {given['kind']!r}")


def _compile_step(given: Mapping[str, Any], measured: Measurements) -> tuple[bytes, dict[str, Any]]:
    """The step, with as large a batch as fits."""
    try:
        model, run = from_calibration(given, measured.models, measured.flag_groups, measured.rows)
    except (KeyError, ValueError) as error:
        raise CannotPredict(f"its configuration: {error}") from error
    refused = ""
    for batch in _batches(run.per_device_batch):
        found = compile_step(model, replace(run, per_device_batch=batch))
        if found.hlo:
            return found.hlo, _notes(found, batch)
        refused = str(found.record.error)
    raise CannotPredict(f"it does not compile: {refused[:200]}")


def _batches(largest: float) -> Iterator[float]:
    yield largest
    yield from range(int(largest) - 1, 0, -1)


def _notes(found: CompiledStep, batch: float) -> dict[str, Any]:
    record = found.record
    return {
        "slice": found.slice.name,
        "batch": batch,
        "dropped": list(found.dropped),
        "temp_bytes": record.temp_bytes,
        "argument_bytes": record.argument_bytes,
        "host_temp_bytes": record.host_temp_bytes,
        "need_bytes": found.need_bytes,
    }


def _compile_product(given: Mapping[str, Any]) -> tuple[bytes, dict[str, Any]]:
    generation = {"v7x": "tpu7x"}.get(given["chip"], given["chip"])
    wanted = parse_slice(f"{generation}:{_ONE_CHIP.get(generation, '1x1')}")
    session = compiling_session()
    placed = SingleDeviceSharding(devices_to_compile_for(session, wanted)[0])
    dtype = _DTYPES.get(given["dtype"], given["dtype"])
    shapes = ((given["m"], given["k"]), (given["k"], given["n"]))
    left, right = (jax.ShapeDtypeStruct(s, dtype, sharding=placed) for s in shapes)
    lowered = jax.jit(jnp.matmul).lower(left, right)
    record, _ = compile_program(session, wanted, start_compiling_anew(lowered))
    return CompiledStep(wanted, record, ()).hlo, {"slice": wanted.name}


def load_rows(measured: Measurements, programs: Path | None, report: Any = print) -> Iterable[Row]:
    """Every row whose program can be had; of the others `report` is told why."""
    for given in measured.rows:
        try:
            yield load_row(given, measured, programs)
        except CannotPredict as error:
            report(f"{given['id']}: not predicted: {error}")
