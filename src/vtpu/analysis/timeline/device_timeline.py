"""A run in time, as a value: executions on devices, transfers on host links, what the host did.

Times are seconds from `began_unix_ns`. Each says its basis: modelled for the chip, measured for what
the host did on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vtpu.clock.program_time import ProgramTime
from vtpu.evidence import Basis
from vtpu.program.modules import Module


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedProgram:
    """A program and what one execution of it does on the chip.

    `id` is a number of its content, equal for equal programs. `time` is None where there is no model of
    it, `module` where the recording does not hold it. `hlo` is the module as a protobuf that has it in
    field 1, `assignment` its buffer assignment; each may be empty.
    """

    id: int
    name: str
    module: Module | None = None
    time: ProgramTime | None = None
    hlo: bytes = field(default=b"", repr=False)
    assignment: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution on one device.

    `program` is a key of the timeline's programs, `number` that of the recording, which is the same on
    all devices of one launch. `step` counts steps from 0; None before the first and where there is none.
    `basis` is None where there is no model: how long it took is not known, and it stands as a moment.
    """

    number: int
    program: int
    device: int
    start_s: float
    end_s: float
    step: int | None = None
    basis: Basis | None = Basis.MODELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTransfer:
    """Bytes on the link between a device and its host."""

    device: int
    to_device: bool
    start_s: float
    end_s: float
    bytes: int
    basis: Basis = Basis.MODELLED


class HostWork(StrEnum):
    """What the host did, in words of the field."""

    EXECUTE = "Execute"
    COMPILE = "Compile"
    WORK = "Host works"
    BLOCKED = "Host is blocked"
    WAIT = "Wait for the device"
    QUEUE = "Wait for room to dispatch"
    TO_DEVICE = "TransferToDevice"
    FROM_DEVICE = "TransferFromDevice"
    COPY = "CopyBetweenMemories"
    CALLBACK = "HostCallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpan:
    """What kept a thread of the host: which work, of what, from which line of the user's program.

    `execution` is the number of what it launched; `context` that of the call to JAX's profiler while it
    traced; `bytes` what it moved; each None where there is none.
    """

    work: HostWork
    start_s: float
    end_s: float
    name: str = ""
    line: str = ""
    execution: int | None = None
    context: int | None = None
    step: int | None = None
    bytes: int | None = None
    thread: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineDevice:
    """A device of this host. `ordinal` counts those of the host, `chip` its chips; `core` is on the chip."""

    id: int
    kind: str
    ordinal: int = 0
    chip: int = 0
    core: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTimeline:
    """A run in time.

    `library_folders`: files below them are not the user's. `notes` are sentences on what it lacks.
    """

    began_unix_ns: int
    host_name: str
    slice: str
    devices: tuple[TimelineDevice, ...]
    programs: Mapping[int, TimedProgram]
    executions: tuple[Execution, ...]
    transfers: tuple[LinkTransfer, ...] = ()
    host: tuple[HostSpan, ...] = ()
    library_folders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
