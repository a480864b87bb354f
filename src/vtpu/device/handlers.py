"""What the native core asks Python: making the client, compiling, layouts, topologies."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtpu.compiler.inspections import report_sharding
from vtpu.compiler.pool import CompilerStopped
from vtpu.compiler.results import TopologyFacts
from vtpu.compiler.service import Answer, CompilerRefused, CompilerService, Program, Topology
from vtpu.device import _core
from vtpu.device.call_stacks import compiling_frame, compiling_stack
from vtpu.device.donation import AskedDonation, asked_donation
from vtpu.device.explanations import Explanations
from vtpu.device.interrupts import Abandoned, abandonment
from vtpu.device.profiles import Profiles
from vtpu.device.programs import LoadableProgram, describe
from vtpu.device.recorder import Recorder
from vtpu.device.shapes import ShapeSpec, shape_spec, token_spec
from vtpu.device.values import Values
from vtpu.errors import CompilerDied, CompilerMissing
from vtpu.program.element_types import ElementType
from vtpu.program.layouts import LayoutError
from vtpu.reading.compile_options import (
    encode_assignment,
    normalize,
    on_device,
    read_compile_options,
)
from vtpu.reading.profile_options import asks_for_devices
from vtpu.recording.recording import ProgramRecord, ValuesRecord

if TYPE_CHECKING:  # the cost model, which only pace needs
    from vtpu.device.pace import Pace

_INTERRUPTED = "interrupted"
_CANCELLED, _INVALID_ARGUMENT, _INTERNAL, _UNAVAILABLE = 1, 3, 13, 14


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A program that is being compiled: who asked for it, when, and how large it is."""

    name: str
    stack: int
    began: int
    size: int
    donation: AskedDonation


class Handlers:
    """Answers the core for one virtual slice. Every method may run on any thread."""

    def __init__(
        self,
        topology: Topology,
        facts: TopologyFacts,
        host: int,
        compiler: CompilerService,
        recorder: Recorder,
        explanations: Explanations,
        values: Values | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._topology = topology
        self._facts = facts
        self._host = host
        self._compiler = compiler
        self._recorder = recorder
        self._explanations = explanations
        self._values = values
        self._pace = pace
        self._numbers = itertools.count(1)
        self._under_way: dict[int, _UnderWay] = {}
        self._topologies: dict[int, tuple[Topology, TopologyFacts]] = {}
        self._devices = {d.id: d for d in facts.devices}
        self._profiles = Profiles(recorder)
        self.client = 0

    # ---- topologies and the client ----

    def explain(self) -> None:
        """From now on JAX says why it traces a function again."""
        self._explanations.install()

    def take_over(self, before: Handlers) -> None:
        """Answers for the topologies of `before` too, and numbers programs on from there."""
        self._topologies.update(before._topologies)
        self._numbers = before._numbers

    def topology_facts(self, name: str, options: dict[str, Any]) -> TopologyFacts:
        """What the compiler says of a topology, as a status if it refuses."""
        return self._ask_compiler(self._compiler.topology, Topology(name, options))

    def create_client(self, options: dict[str, Any]) -> int:  # noqa: ARG002, see below
        """The client of this host. `options` are for a real TPU and change nothing here."""
        handle = self._new_topology(self._topology, self._facts)
        places = [_place(d.attributes) for d in self._facts.devices]
        self.client = _core.new_client(handle, self._host, self._facts.hbm_bytes, places)
        return self.client

    def create_topology(self, name: str, options: dict[str, Any]) -> int:
        """A topology to compile for without devices."""
        topology = Topology(name, options) if name else self._topology
        return self._new_topology(topology, self._ask_compiler(self._compiler.topology, topology))

    def deserialize_topology(self, data: bytes) -> int:
        """The topology that a client of this process serialized."""
        for topology, facts in [*self._topologies.values(), (self._topology, self._facts)]:
            if facts.serialized and facts.serialized == data:
                return self._new_topology(topology, facts)
        raise _core.StatusError(_INVALID_ARGUMENT, "the topology is of another slice")

    def _new_topology(self, topology: Topology, facts: TopologyFacts) -> int:
        devices = [
            (d.id, d.process_index, d.kind, d.debug_string, d.to_string, d.attributes)
            for d in facts.devices
        ]
        handle = _core.new_topology(
            topology.name, facts.platform_version, facts.serialized, facts.attributes, devices
        )
        self._topologies[handle] = (topology, facts)
        return handle

    # ---- shapes ----

    def default_shape(self, element_type: int, dims: tuple[int, ...]) -> ShapeSpec:
        """An array on this slice that asks for no layout."""
        return self._default_shape(self._topology, self._facts, element_type, dims)

    def topology_layout(self, topology: int, element_type: int, dims: tuple[int, ...]) -> ShapeSpec:
        """The same on another topology."""
        return self._default_shape(*self._topologies[topology], element_type, dims)

    def shape_with_layout(self, element_type: int, dims: tuple[int, ...], layout: str) -> ShapeSpec:
        """An array in a layout of its own."""
        try:
            return shape_spec(element_type, dims, layout)
        except LayoutError as error:
            raise _core.StatusError(_INVALID_ARGUMENT, str(error)) from error

    def _default_shape(
        self, topology: Topology, facts: TopologyFacts, element_type: int, dims: tuple[int, ...]
    ) -> ShapeSpec:
        if element_type == ElementType.TOKEN:
            return token_spec(dims)
        layout = self._ask_compiler(
            self._compiler.default_layout, topology, facts.devices[0].kind, element_type, dims
        )
        return shape_spec(element_type, dims, layout)

    # ---- programs ----

    def compile(self, client: int, code: bytes, code_format: str, options: bytes) -> int:
        """Compiles a program and loads it on the devices that its options name."""
        number = next(self._numbers)
        program = self._compile(number, code, code_format, options, self._topology)
        return self._load(client, number, program)

    def compile_ahead(self, topology: int, code: bytes, code_format: str, options: bytes) -> int:
        """Compiles a program for a topology, without devices."""
        number = next(self._numbers)
        target, _ = self._topologies[topology]
        program = self._compile(number, code, code_format, options, target)
        return program.make_executable(number)

    def deserialize(self, client: int, data: bytes, options: bytes | None) -> int:
        """Loads a program that was serialized here or in an earlier run."""
        number = next(self._numbers)
        try:
            program = LoadableProgram.deserialize(data, options)
        except ValueError as error:
            raise _core.StatusError(_INVALID_ARGUMENT, str(error)) from error
        self._record(number, program, began=_core.now_ns(), from_cache=True, size=len(data))
        return self._load(client, number, program)

    def _load(self, client: int, number: int, program: LoadableProgram) -> int:
        if self._values:
            self._values.add_program(number, program)
        executable = program.make_executable(number)
        options = program.options
        device_ids = self._device_ids(program)
        if self._pace:
            self._pace.add_program(number, program, device_ids)
        assignment = options.assignment or encode_assignment(
            options.num_replicas, options.num_partitions, device_ids
        )
        return _core.load_executable(client, executable, device_ids, assignment)

    def _device_ids(self, program: LoadableProgram) -> tuple[int, ...]:
        """The devices of a program; without an assignment the first ones of this host."""
        options = program.options
        if options.device_ids is not None:
            return options.device_ids
        count = options.num_replicas * options.num_partitions
        local = [d.id for d in self._facts.devices if d.process_index == self._host]
        return tuple(local[:count] if count <= len(local) else list(self._devices)[:count])

    def _compile(
        self, number: int, code: bytes, code_format: str, options: bytes, topology: Topology
    ) -> LoadableProgram:
        began = _core.now_ns()
        asked = Program(_module_name(code), code, code_format, self._neutral_options(options))
        donation = asked_donation(compiling_frame())
        stack = compiling_stack()
        self._under_way[number] = _UnderWay(asked.name, stack, began, len(code), donation)
        try:
            answer = self._ask_compiler(self._compiler.compile, asked, topology, abandonment())
        except _core.StatusError as error:
            self._record_failure(number, str(error), error.__cause__)
            raise
        except KeyboardInterrupt:
            self._record_failure(number, _INTERRUPTED)
            raise
        self._under_way.pop(number, None)
        _report_shardings(answer)
        program = LoadableProgram.of_answer(answer, code, options)
        self._record(number, program, began, answer.from_cache, len(code))
        return program

    def _neutral_options(self, options: bytes) -> bytes:
        """Options by which one program, also on different single devices, is one to the compiler."""
        read = read_compile_options(options)
        if read.device_ids is not None and len(read.device_ids) == 1:
            options = on_device(options, self._facts.devices[0].id)
        return normalize(options)

    def _record(
        self, number: int, program: LoadableProgram, began: int, from_cache: bool, size: int
    ) -> None:
        stack = compiling_stack()
        name = program.compiled.name
        host_ns = _core.now_ns() - began
        _core.record_compile(number, stack, began, host_ns, size, from_cache, False)
        asked = asked_donation(compiling_frame())
        self._recorder.program(
            describe(
                program,
                number,
                self._device_ids(program),
                stack=stack,
                from_cache=from_cache,
                reason=self._explanations.take(name),
                asked_to_donate=asked.parameters,
                donation_is_off=asked.is_off,
            )
        )

    def give_up_compiling(self) -> None:
        """At the end of the recording: what is still being compiled counts as interrupted."""
        for number in list(self._under_way):
            self._record_failure(number, _INTERRUPTED)

    def _record_failure(self, number: int, error: str, cause: BaseException | None = None) -> None:
        asked = self._under_way.pop(number, None)
        if asked is None:  # the end recorded it already
            return
        took = _core.now_ns() - asked.began
        _core.record_compile(number, asked.stack, asked.began, took, asked.size, False, True)
        left = cause if isinstance(cause, CompilerRefused) else None
        self._recorder.program(
            ProgramRecord(
                number=number,
                name=asked.name,
                key="",
                stack=asked.stack,
                reason=self._explanations.take(asked.name),
                error=error,
                asked_to_donate=asked.donation.parameters,
                donation_is_off=asked.donation.is_off,
                locations=left.locations if left else (),
                hlo=left.refusal.packed_hlo if left else b"",
                log=left.refusal.packed_log if left else b"",
            )
        )

    def _ask_compiler(self, ask: Any, *arguments: Any) -> Any:
        """What `ask` answers, with every failure as a status for the caller of the ABI."""
        try:
            return ask(*arguments)
        except CompilerRefused as refusal:
            raise _core.StatusError(refusal.code, str(refusal)) from refusal
        except CompilerDied as death:
            self._recorder.problem(str(death).split("\n")[0])
            raise _core.StatusError(_INTERNAL, str(death)) from death
        except CompilerMissing as missing:
            raise _core.StatusError(_UNAVAILABLE, str(missing)) from missing
        except CompilerStopped as stop:
            raise _core.StatusError(_CANCELLED, str(stop)) from stop
        except Abandoned as interruption:
            raise _core.StatusError(_CANCELLED, _INTERRUPTED) from interruption

    # ---- values ----

    def compute(self, value: Any) -> None:
        """Makes a pending value known, or unknown with the reason."""
        assert self._values
        self._values.compute(value)

    def call_host(self, launch: Any, functions: Any) -> int:
        """Runs an execution with its host functions and real values.

        0, or the number of the reason why those cannot be had.
        """
        assert self._values
        return self._values.call_host(launch, functions)

    def why_unknown(self, number: int) -> str:
        """What the host is told of a value that cannot be had."""
        assert self._values
        return self._values.why_unknown(number)

    def describe_values(self) -> ValuesRecord:
        """What computing values took so far."""
        return self._values.describe() if self._values else ValuesRecord()

    # ---- pace ----

    def begin_pace(self) -> None:
        """From now on results are ready when the virtual clock says so, if that was asked for."""
        if self._pace and not _core.start_pace():
            self._recorder.problem("there was no thread left for pace: results were ready at once")

    def pace_failed(self, error: BaseException) -> None:
        """Placing something on the virtual clock raised: it was ready at once."""
        self._recorder.problem(f"some results were ready at once in spite of pace: {error!r}")

    def place_execution(
        self, at_ns: int, number: int, program: int, device: int, awaits: int
    ) -> tuple[int, int]:
        """When an execution will be done, and when the host may go on."""
        assert self._pace
        return self._pace.place_execution(at_ns, number, program, device, awaits)

    def place_transfer(
        self, at_ns: int, kind: int, flags: int, number: int, device: int, size: int
    ) -> int:
        """When a transfer will be done."""
        assert self._pace
        return self._pace.place_transfer(at_ns, kind, flags, number, device, size)

    # ---- recording ----

    def begin_profile(self, options: bytes) -> int:
        """Begins a trace of the devices; its number, or 0 when devices are not asked for."""
        return self._profiles.begin() if asks_for_devices(options) else 0

    def end_profile(self, number: int) -> bytes:
        """Ends a trace: a serialized XSpace."""
        return self._profiles.end(number)

    def flush(self) -> None:
        """Writes down what happened."""
        self._recorder.flush()

    def flush_failed(self, error: BaseException) -> None:
        """Writing raised something that is not an error of the disk."""
        self._recorder.problem(f"the recording stops early: {error!r}")


def _report_shardings(answer: Answer) -> None:
    """Tells the callbacks of a program which shardings the partitioner chose."""
    for number, sharding in answer.compiled.inspected:
        error = report_sharding(answer.source.inspections[number], sharding)
        if error is not None:
            raise _core.StatusError(_INTERNAL, error)


def _place(attributes: dict[str, Any]) -> str:
    """How messages name a device's memory: `0x3x0_HBM0`, from coordinates x, y and core."""
    x, y, *_ = [*attributes.get("coords", ()), 0, 0]
    return f"{x}x{y}x{attributes.get('core_on_chip', 0)}_HBM0"


def _module_name(code: bytes) -> str:
    """The name of a module in portable bytecode, for messages before it is parsed."""
    at = code.find(b"jit_")
    end = code.find(b"\0", at)
    return code[at:end].decode(errors="replace") if 0 <= at < end < at + 200 else "a program"
