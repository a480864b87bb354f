"""A recording in memory: the values that a file holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vtpu.recording.events import EVENT_DTYPE


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A line of Python in a function. `function` is the qualified name."""

    file: str
    function: str
    line: int


FIRST_CALL = "first call of this function object"
"""The reason of a program whose function JAX had not seen before."""

Stack = tuple[StackFrame, ...]
"""Frames from the innermost outwards."""


@dataclass(frozen=True, slots=True)
class ShapeRecord:
    """An array's shape: element type (as PJRT numbers it), dimensions, layout as XLA prints it."""

    element_type: int
    dims: tuple[int, ...]
    layout: str
    logical_bytes: int
    device_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRecord:
    """A program that JAX compiled. Sizes are the compiler's, in bytes per device.

    `temp_bytes` is what it reserves by its buffer assignment, `temp_field_bytes` what the compiler's
    own `temp_size_in_bytes` says. `key` names the program's content: two programs with one key are the same. `reason` is JAX's
    explanation of why it traced again, or None. `error` is set when there is no result. `hlo` is the
    optimised module (`hlo_with_config`, compressed by zlib), whose lines are numbers into
    `locations`, the places as MLIR prints them; of a program that did not compile it is the
    `HloProto` that the compiler dumped, if it did. `assignment` is the `BufferAssignmentProto`, `log`
    what the compiler logged, compressed too.

    `donated_parameters` are those whose memory an output takes. `asked_to_donate` are those that the
    program was to donate, None where that is not known; `donation_is_off`: `jax_debug_nans` was set, so
    that JAX donated nothing although `jax.jit` was told to.
    """

    number: int
    name: str
    key: str
    stack: int
    num_replicas: int = 1
    num_partitions: int = 1
    device_ids: tuple[int, ...] = ()
    argument_bytes: int = 0
    output_bytes: int = 0
    alias_bytes: int = 0
    temp_bytes: int = 0
    temp_field_bytes: int = 0
    generated_code_bytes: int = 0
    host_argument_bytes: int = 0
    host_output_bytes: int = 0
    host_alias_bytes: int = 0
    host_temp_bytes: int = 0
    peak_memory_field_bytes: int = 0
    flops: float | None = None
    bytes_accessed: float | None = None
    num_parameters: int = 0
    num_outputs: int = 0
    donated_parameters: tuple[int, ...] = ()
    parameter_shapes: tuple[str, ...] = ()
    output_shapes: tuple[str, ...] = ()
    has_host_callbacks: bool = False
    compile_s: float | None = None
    from_cache: bool = False
    reason: str | None = None
    error: str | None = None
    asked_to_donate: tuple[int, ...] | None = None
    donation_is_off: bool = False
    locations: tuple[str, ...] = ()
    hlo: bytes = b""
    assignment: bytes = b""
    log: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRecord:
    """A device of the slice."""

    id: int
    host: int
    kind: str
    coords: tuple[int, ...] = ()
    core: int = 0
    slice_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What ran, where, with what. `devices` are all of the slice, of every host.

    `library_folders`: files below these are not the user's. `function_names`: functions of the PJRT
    ABI by the number that events of unsupported calls carry. `part_of` names the `vtpu run` that the
    process belongs to; empty without one. `values`: what arrays contain, `auto`, `cpu` or `zeros`.
    `is_paced`: the program really waited for the slice.
    """

    slice: str
    slice_asked: str
    host: int
    num_hosts: int
    devices: tuple[DeviceRecord, ...]
    hbm_bytes: int
    platform_version: str
    versions: dict[str, str]
    command: tuple[str, ...]
    folder: str
    started_unix_s: float
    library_folders: tuple[str, ...] = ()
    function_names: tuple[str, ...] = ()
    part_of: str = ""
    values: str = "zeros"
    is_paced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """The state of a device's memory when the recording ended, bytes."""

    device: int
    in_use: int
    peak_in_use: int
    peak_total: int
    peak_event: int
    limit: int
    largest_free: int
    reservable: int
    host_in_use: int
    host_peak: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesRecord:
    """What computing values took: how many reads were computed, how many executions were repeated
    for that, seconds, and the most bytes that contents of arrays took in memory and on disk.
    """

    reads: int = 0
    executions: int = 0
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    peak_disk_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRecord:
    """How the recording ended: the state of memory, what went wrong on the way.

    `stops_early`: nothing of what happened after the last event is in the file (the disk was full).
    `late_settings`: variables that the program put into its environment when they had been read already,
    with their values.
    """

    wall_s: float
    memory: tuple[DeviceMemory, ...]
    dropped_events: int = 0
    compiler_starts: int = 0
    stops_early: bool = False
    values: ValuesRecord = ValuesRecord()
    problems: tuple[str, ...] = ()
    late_settings: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """Everything a file holds. `end` is None and `problems` says why when the file was cut."""

    run: RunRecord
    stacks: tuple[Stack, ...] = ()
    shapes: tuple[ShapeRecord, ...] = ()
    whys: tuple[str, ...] = ()
    programs: tuple[ProgramRecord, ...] = ()
    events: np.ndarray = field(default_factory=lambda: np.empty(0, EVENT_DTYPE))
    end: EndRecord | None = None
    exit_code: int | None = None
    problems: tuple[str, ...] = ()

    def stack(self, number: int) -> Stack:
        """The stack with a number that an event carries; empty for 0."""
        return self.stacks[number - 1] if 0 < number <= len(self.stacks) else ()

    def why(self, number: int) -> str:
        """The reason with a number that an event carries; empty for 0."""
        return self.whys[number - 1] if 0 < number <= len(self.whys) else ""

    def shape(self, number: int) -> ShapeRecord | None:
        """The shape with a number that an event carries."""
        return self.shapes[number] if number < len(self.shapes) else None

    def __eq__(self, other: object) -> bool:
        """Equal in every field; events by their contents."""
        if not isinstance(other, Recording):
            return NotImplemented
        fields = [name for name in self.__slots__ if name != "events"]
        return all(getattr(self, f) == getattr(other, f) for f in fields) and np.array_equal(
            self.events, other.events
        )

    def __hash__(self) -> int:
        """By identity: recordings are compared, not used as keys."""
        return id(self)
