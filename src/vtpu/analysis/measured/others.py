"""What can be told of profiles without a TPU: kernels of a GPU, operations on a CPU, the host's work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtpu.analysis.measured.operations import (
    CoreProfile,
    CoreTimes,
    MeasuredOperation,
    collective_in,
)
from vtpu.analysis.measured.self_times import covered, self_times
from vtpu.program.op_names import layer_of
from vtpu.reading.xplane.space import Line, Plane

_PS = 1e12


def read_other_device(plane: Plane) -> CoreProfile:
    """What the plane of a GPU tells: its streams' kernels by name."""
    lines = [line for line in plane.lines if _is_work(line)]
    starts = np.concatenate([np.empty(0, np.int64), *(_begins(line) for line in lines)])
    ends = np.concatenate([np.empty(0, np.int64), *(_ends(line) for line in lines)])
    window = int(ends.max() - starts.min()) if len(starts) else 0
    busy = covered(starts, ends)
    return CoreProfile(
        times=CoreTimes(
            name=plane.name, window_s=window / _PS, busy_s=busy / _PS, operations_s=busy / _PS
        ),
        operations=tuple(op for line in lines for op in _events(plane, line)),
        runs=(),
        steps=(),
    )


def _is_work(line: Line) -> bool:
    """Streams hold kernels; other lines of a GPU's plane show the same again in larger parts."""
    return line.name.startswith("Stream") or line.name == "XLA Ops"


def read_host(plane: Plane) -> CoreProfile:
    """What the host's plane tells: operations that XLA ran on the CPU, else what its threads did."""
    found = [op for line in plane.lines for op in _events(plane, line)]
    on_cpu = [op for op in found if op.category]
    return CoreProfile(
        times=CoreTimes(name=plane.name, window_s=0.0, busy_s=0.0, operations_s=0.0),
        operations=tuple(on_cpu or found),
        runs=(),
        steps=(),
    )


def _begins(line: Line) -> np.ndarray:
    return line.began_ns * 1000 + line.events.offset_ps


def _ends(line: Line) -> np.ndarray:
    return line.began_ns * 1000 + line.events.end_ps


def _events(plane: Plane, line: Line) -> Iterator[MeasuredOperation]:
    """The events of a line by name and by the operation of XLA that they are of."""
    events = line.events
    own = self_times(events.offset_ps, events.end_ps)
    ops, modules = events.stat("hlo_op"), events.stat("hlo_module")
    groups: dict[tuple[int, str, str], list[int]] = {}
    for row, number in enumerate(events.metadata.tolist()):
        key = (number, str(ops.get(row, "")), str(modules.get(row, "")))
        groups.setdefault(key, []).append(row)
    for (number, op, module), rows in groups.items():
        kind = plane.metadata.get(number)
        name = kind.short_name if kind else f"(kind {number})"
        op_name = str(kind.stats.get("tf_op", "") if kind else "").rstrip(":")
        yield MeasuredOperation(
            program=module,
            name=name,
            category=op,
            count=len(rows),
            self_s=int(own[rows].sum()) / _PS,
            op_name=op_name,
            layer=layer_of(op_name),
            collective=_nccl(name) or collective_in(op),
            text=name,
        )


def _nccl(name: str) -> str:
    """The communication that a kernel of NCCL is for."""
    words = {"AllReduce": "all-reduce", "AllGather": "all-gather", "ReduceScatter": "reduce-scatter",
             "SendRecv": "collective-permute", "AllToAll": "all-to-all"}  # fmt: skip
    if not name.startswith("nccl"):
        return ""
    return next((kind for word, kind in words.items() if word in name), "")
