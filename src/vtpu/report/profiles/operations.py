"""The operations of a program as events: what each is, and when one execution comes to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vtpu.analysis.program.sources import Source, source_of
from vtpu.analysis.source_lines import UserLines
from vtpu.analysis.timeline.beside import find_beside
from vtpu.analysis.timeline.device_timeline import TimedProgram
from vtpu.analysis.timeline.expansion import Occurrences, count_events, expand
from vtpu.clock.program_time import Estimate, OperationTime, ProgramTime
from vtpu.program.memory import MemorySpace
from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import ArrayShape, leaves
from vtpu.reading import wire
from vtpu.reading.xplane.collecting import Kinds
from vtpu.reading.xplane.space import EventMetadata, StatValue
from vtpu.report.profiles.instruction_text import category_of, hlo_text, shape_text

Ints = NDArray[np.int64]

PS_PER_S = 1e12
_READ, _WRITE, _HBM = 1, 2, 1  # XProf's OpMetrics.MemoryAccessed: what was done, in which memory
_ALL_OPERATIONS = 1 << 62  # a symbol that no instruction has


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """The events of one execution: number of the kind, picoseconds from the begin of the execution."""

    metadata: Ints
    offset_ps: Ints
    duration_ps: Ints
    is_async: NDArray[np.bool_]
    instruction: Ints


class ProgramEvents:
    """Makes the events of one program. Kinds go to `kinds`, which planes share."""

    def __init__(
        self, program: TimedProgram, module: Module, lines: UserLines, kinds: Kinds
    ) -> None:
        assert program.time is not None
        self.time: ProgramTime = program.time
        self._program = program
        self._module = module
        self._lines = lines
        self._kinds = kinds
        self._symbols = {number: i for i, number in enumerate(module.by_id, start=1)}
        self._beside = find_beside(module)
        self._numbers: dict[tuple[int, float], int] = {}
        self._many: dict[float, int] = {1.0: 0}
        self._templates: dict[int | None, Template] = {}

    def count(self, most_passes: int | None) -> int:
        """How many events one execution has, with so many passes of each loop shown one by one."""
        return count_events(self.time, most_passes)

    def template(self, most_passes: int | None) -> Template:
        """The events of one execution."""
        if most_passes not in self._templates:
            self._templates[most_passes] = self._template(
                expand(self.time, most_passes, self._beside)
            )
        return self._templates[most_passes]

    @cached_property
    def whole(self) -> Template:
        """One event for all operations of an execution."""
        number = self._kinds.add(self._whole())
        return Template(
            metadata=np.array([number]),
            offset_ps=np.zeros(1, np.int64),
            duration_ps=np.array([round(self.time.total.seconds * PS_PER_S)]),
            is_async=np.zeros(1, np.bool_),
            instruction=np.zeros(1, np.int64),
        )

    def name_of_end(self, instruction: int) -> str:
        """The instruction that waits for the end of an asynchronous one."""
        done = self._module.by_id.get(self._beside.done_of.get(instruction, -1))
        return done.name if done else ""

    def _template(self, found: Occurrences) -> Template:
        start = np.rint(found.start * PS_PER_S).astype(np.int64)
        end = np.rint(found.end * PS_PER_S).astype(np.int64)
        return Template(
            metadata=self._metadata(found),
            offset_ps=start,
            duration_ps=np.maximum(end - start, 0),
            is_async=found.is_async,
            instruction=found.instruction,
        )

    def _metadata(self, found: Occurrences) -> Ints:
        """The kind of each event, by instruction and passes."""
        numbers = np.empty(len(found), np.int64)
        for passes in np.unique(found.passes).tolist():
            rows = np.flatnonzero(found.passes == passes)
            instructions, which = np.unique(found.instruction[rows], return_inverse=True)
            kinds = [self._number(i, passes) for i in instructions.tolist()]
            numbers[rows] = np.array(kinds)[which]
        return numbers

    def _number(self, number: int, passes: float) -> int:
        key = (number, passes)
        self._many.setdefault(passes, len(self._many))
        if key not in self._numbers:
            instruction = self._module.by_id.get(number)
            self._numbers[key] = self._kinds.add(
                self._describe(instruction, passes)
                if instruction
                else EventMetadata(name=f"(instruction {number})")
            )
        return self._numbers[key]

    def _describe(self, instruction: Instruction, passes: float) -> EventMetadata:
        source = source_of(self._module, instruction)
        stats: dict[str, StatValue] = {
            "hlo_category": category_of(self._module, instruction),
            "program_id": self._program.id,
            "symbol_id": (self._many[passes] << 32) + self._symbols[instruction.id],
            "shape_with_layout": shape_text(instruction.shape),
            **_source_stats(source, self._lines),
            **_work_stats(self.time.operations.get(instruction.id), instruction, passes),
        }
        if passes != 1:
            stats["vtpu_passes"] = float(passes)
        return EventMetadata(
            name=hlo_text(self._module, instruction), display_name=instruction.name, stats=stats
        )

    def _whole(self) -> EventMetadata:
        stats: dict[str, StatValue] = {
            "hlo_category": "operations not shown one by one",
            "program_id": self._program.id,
            "symbol_id": _ALL_OPERATIONS,
            **_amounts(self.time.flops, self.time.hbm_bytes, 0),
            "vtpu_operations": self.count(None),
        }
        return EventMetadata(
            name=f"all operations of {self._program.name}",
            display_name="all operations",
            stats=stats,
        )


def _source_stats(source: Source, lines: UserLines) -> dict[str, StatValue]:
    stats: dict[str, StatValue] = {}
    if source.op_name:
        stats["tf_op"] = f"{source.op_name}:"
    if any(frame.line for frame in source.frames):
        line = lines.line(source.frames)
        stats["source"] = str(line)
        stats["source_stack"] = "\n".join(
            f"{frame.file}:{frame.line}:{frame.column}" for frame in reversed(source.frames)
        )
    return stats


def _work_stats(
    operation: OperationTime | None, instruction: Instruction, passes: float
) -> dict[str, StatValue]:
    """What an operation does and is expected to take; nothing for what is not known."""
    if operation is None:
        return {}
    flops, size = operation.flops, operation.hbm_bytes
    stats = _amounts(
        None if flops is None else round(flops * passes),
        None if size is None else round(size * passes),
        round(_written_bytes(instruction) * passes),
    )
    if operation.bound:
        stats["vtpu_bound_by"] = str(operation.bound)
    if operation.time:
        stats["vtpu_modelled_time"] = band_text(operation.time)
    return stats


def _written_bytes(instruction: Instruction) -> int:
    """Bytes of the results that lie in HBM."""
    arrays = (s for _, s in leaves(instruction.shape) if isinstance(s, ArrayShape))
    return sum(a.padded_bytes for a in arrays if a.layout.memory_space == MemorySpace.HBM)


def band_text(time: Estimate) -> str:
    """A modelled time with its band: `12.3 us (10.1 to 15.0)`."""
    return f"{time.seconds * 1e6:.3g} us ({time.low * 1e6:.3g} to {time.high * 1e6:.3g})"


def _amounts(flops: int | None, hbm_bytes: int | None, written: int) -> dict[str, StatValue]:
    """FLOPs, and bytes of HBM; at most all of these are written, the rest is read."""
    stats: dict[str, StatValue] = {}
    if flops is not None:
        stats |= {"flops": flops, "model_flops": flops}
    if hbm_bytes is not None:
        written = min(written, hbm_bytes)
        stats["bytes_accessed"] = hbm_bytes
        stats["memory_access_breakdown"] = b"".join(
            _accessed(what, size)
            for what, size in ((_READ, hbm_bytes - written), (_WRITE, written))
            if size
        )
    return stats


def _accessed(what: int, size: int) -> bytes:
    parts = ((1, what), (2, _HBM), (3, size))
    return wire.write_field(1, b"".join(wire.write_field(n, value) for n, value in parts))
