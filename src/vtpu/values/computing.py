"""Computes the value that the host looks at, from the executions that it depends on."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax.errors import JaxRuntimeError
from jaxlib.mlir import ir

from vtpu.program.element_types import ElementType
from vtpu.values.budget import Budget, Mode
from vtpu.values.cost import Cost
from vtpu.values.cpu_client import CpuClient, TookTooLong
from vtpu.values.followed import Launch, Value
from vtpu.values.programs import HostFunctionRaised, HostFunctions, Part, Program
from vtpu.values.reasons import WHY_FORGOTTEN, WHY_NEVER_WRITTEN, Reasons
from vtpu.values.replacements import NoCpuForm

#: A part that costs this share of its program is run as a whole: the rest will be asked for too, and
#: the whole gives the bits that JAX's CPU backend gives.
_WHOLE_FROM = {Mode.AUTO: 0.25, Mode.CPU: 0.01}


#: What XLA and MLIR raise for a program that they cannot compile or run.
_FORESEEN = (JaxRuntimeError, ir.MLIRError, MemoryError)


class _Unknown(Exception):
    """The value cannot be had; `why` is the number of the reason."""

    def __init__(self, why: int) -> None:
        super().__init__(why)
        self.why = why


@dataclass(slots=True)
class _Step:
    """An execution to be repeated for some of its outputs."""

    launch: Launch
    outputs: set[int] = field(default_factory=set)
    part: Part | None = None
    arguments: list[list[Value]] = field(default_factory=list)


@dataclass(slots=True)
class Computed:
    """How much was computed: reads that had to compute, executions repeated, seconds."""

    reads: int = 0
    launches: int = 0
    seconds: float = 0.0


class Computer:
    """Computes values for one virtual slice. Methods may run on any thread.

    `program` gives the program with a number; KeyError when its text is not known.
    """

    def __init__(
        self,
        mode: Mode,
        budget: Budget,
        reasons: Reasons,
        note_problem: Callable[[str], None],
        num_devices: int,
        program: Callable[[int], Program],
    ) -> None:
        self.computed = Computed()
        self._read_program = program
        self.reasons = reasons
        self._note_problem = note_problem
        self._mode = mode
        self._budget = budget
        self._client = CpuClient(num_devices)
        self._programs: dict[int, Program] = {}

    def forget_program(self, number: int) -> None:
        """Forgets the parts of a program that nothing refers to."""
        self._programs.pop(number, None)

    def compute(self, value: Value) -> None:
        """Makes a pending value known, or unknown with the reason."""
        began = time.monotonic()
        try:
            self._run(self._plan(value), began)
            self.computed.reads += 1
        except Exception as error:  # the program goes on, and the report says why
            value.give_up(self._why_not(error))
        self.computed.seconds += time.monotonic() - began

    def call_host(self, launch: Launch, functions: HostFunctions) -> int:
        """Runs an execution with its host functions.

        0, or the number of the reason why it cannot be run; then no function was called.

        Raises:
            Exception: what a host function raised.
        """
        began = time.monotonic()
        step = _Step(launch)
        try:
            step.part = self._part_with_host_calls(launch)
            steps = self._plan_from([step])
            step.part.compile(self._client)
            self._run(steps[:-1], began)
        except Exception as error:  # as above
            why = self._why_not(error)
            self._give_up_results(launch, why)
            return why
        try:
            self._run_step(step, float("inf"), functions)
        except HostFunctionRaised as error:
            raise error.raised from None
        except Exception as error:  # as above; some functions have been called
            why = self._why_not(error)
            self._give_up_results(launch, why)
            self._note_problem(
                f"{self._program(launch).name} did not call all of its host functions: "
                f"{self.reasons.text(why)}"
            )
        self.computed.seconds += time.monotonic() - began
        return 0

    def _part_with_host_calls(self, launch: Launch) -> Part:
        try:
            part = self._program(launch).with_host_calls()
        except NoCpuForm as reason:
            raise _Unknown(self._why_none(launch, reason)) from reason
        is_called_elsewhere = any(call.knows_device for call in part.host_calls)
        if is_called_elsewhere and len(launch.logical_ids) < launch.num_devices:
            raise _Unknown(self._why("its host functions are called on other hosts too"))
        return part

    def _give_up_results(self, launch: Launch, why: int) -> None:
        for output in range(self._program(launch).num_outputs):
            for value in launch.results(output):
                if value is not None:
                    value.give_up(why)

    # ---- planning ----

    def _plan(self, value: Value) -> list[_Step]:
        """The executions that `value` depends on, earliest first."""
        launch = value.launch()
        if launch is None:
            return []
        return self._plan_from([_Step(launch, {value.place()[1]})])

    def _plan_from(self, wanted: list[_Step]) -> list[_Step]:
        steps = {step.launch.number: step for step in wanted}
        todo = [-number for number in steps]
        heapq.heapify(todo)
        planned: list[_Step] = []
        cost = Cost()
        while todo:
            step = steps[-heapq.heappop(todo)]
            self._choose_part(step)
            assert step.part is not None
            cost += step.part.cost
            if excess := self._budget.excess(cost.flops, cost.bytes):
                name = self._program(step.launch).name
                raise _Unknown(self._why(f"computing it {excess} ({name})"))
            planned.append(step)
            for value in (v for values in step.arguments for v in values if v.is_pending):
                self._need(value, steps, todo)
        return planned[::-1]

    def _need(self, value: Value, steps: dict[int, _Step], todo: list[int]) -> None:
        launch = value.launch()
        if launch is None:
            return
        if launch.number not in steps:
            steps[launch.number] = _Step(launch)
            heapq.heappush(todo, -launch.number)
        steps[launch.number].outputs.add(value.place()[1])

    def _choose_part(self, step: _Step) -> None:
        """The part of its program that a step runs, with what that takes."""
        program = self._program(step.launch)
        try:
            if step.part is None:
                step.part = program.part(frozenset(step.outputs))
            step.arguments = self._arguments(step.launch, step.part)
            if step.outputs:
                self._widen(step, program)
        except NoCpuForm as reason:
            raise _Unknown(self._why_none(step.launch, reason)) from reason

    def _widen(self, step: _Step, program: Program) -> None:
        """Runs the whole program where the part is most of it and nothing speaks against that."""
        assert step.part is not None
        try:
            whole = program.whole()
            if _work(step.part.cost) < _WHOLE_FROM[self._mode] * _work(whole.cost):
                return
            if self._budget.excess(whole.cost.flops, whole.cost.bytes):
                return
            step.arguments = self._arguments(step.launch, whole)
            step.part = whole
        except (_Unknown, NoCpuForm):
            return

    def _arguments(self, launch: Launch, part: Part) -> list[list[Value]]:
        """The values of a part's parameters on the devices that compute it."""
        given = launch.arguments(part.parameters)
        if len(given) != len(part.parameters):
            raise _Unknown(WHY_FORGOTTEN)
        if not part.is_alike and launch.num_devices > self._client.num_devices:
            most = self._client.num_devices
            raise _Unknown(
                self._why(
                    f"it needs a CPU for each of {launch.num_devices} devices; most are {most}"
                )
            )
        return [
            self._on_devices(launch, part, index, values)
            for index, values in zip(part.parameters, given, strict=True)
        ]

    def _on_devices(
        self, launch: Launch, part: Part, index: int, given: list[Value | None]
    ) -> list[Value]:
        """The values of an argument on the devices that compute a part."""
        values = [v for v in given if v is not None]
        if len(values) < len(given):
            raise _Unknown(WHY_NEVER_WRITTEN)
        if part.is_alike:
            values = values[:1]
        elif len(values) < launch.num_devices:
            values = self._with_other_hosts(launch, index, values)
        else:
            values = [
                v for _, v in sorted(zip(launch.logical_ids, values, strict=True), key=_first)
            ]
        if why := next((v.why for v in values if v.why), 0):
            raise _Unknown(why)
        return values

    def _with_other_hosts(self, launch: Launch, index: int, local: list[Value]) -> list[Value]:
        """The values of an argument on all devices, from those on the devices of this host."""
        everywhere = _results_everywhere(launch, local)
        if everywhere is not None:
            return everywhere
        spreads = self._program(launch).parameter_spreads
        spread = spreads[index] if index < len(spreads) else None
        if spread is not None:
            by_part = {spread.parts[i]: v for i, v in zip(launch.logical_ids, local, strict=True)}
            if set(by_part) == set(spread.parts):
                return [by_part[part] for part in spread.parts]
        raise _Unknown(self._why("it needs what is on the devices of other hosts"))

    # ---- running ----

    def _run(self, steps: list[_Step], began: float) -> None:
        deadline = began + self._budget.seconds
        for i in range(len(steps)):
            step, steps[i] = steps[i], None  # type: ignore[call-overload]
            try:
                self._run_step(step, deadline, None)
            except TookTooLong:
                limit = f"{self._budget.seconds:g} s"
                raise _Unknown(
                    self._why(f"computing it takes longer than the budget: {limit}")
                ) from None

    def _run_step(self, step: _Step, deadline: float, functions: HostFunctions | None) -> None:
        assert step.part is not None
        arguments = [[_array(v) for v in values] for values in step.arguments]
        if time.monotonic() > deadline:
            raise TookTooLong
        outputs = step.part.run(self._client, arguments, deadline, functions)
        self.computed.launches += 1
        if step.part.is_alike:
            outputs = [shards * step.launch.num_devices for shards in outputs]
        program = self._program(step.launch)
        for number, shards in zip(step.part.outputs, outputs, strict=True):
            _know(step.launch.results(number), shards, program.parts_of(number))
        for number in program.tokens:
            for value in step.launch.results(number):
                if value is not None:
                    value.know(b"")

    # ---- reasons ----

    def _program(self, launch: Launch) -> Program:
        number = launch.program
        if number not in self._programs:
            try:
                self._programs[number] = self._read_program(number)
            except KeyError:
                raise _Unknown(self._why("the text of its program is not known")) from None
        return self._programs[number]

    def _why(self, text: str) -> int:
        return self.reasons.number(text)

    def _why_not(self, error: Exception) -> int:
        """The reason that an error gives. What nobody foresaw is a problem of vtpu's, and said so."""
        if isinstance(error, _Unknown):
            return error.why
        if not isinstance(error, _FORESEEN):
            self._note_problem(
                f"vtpu failed to compute a value; please report this: {_in_a_line(error)}"
            )
        return self._why(f"computing it failed: {_in_a_line(error)}")

    def _why_none(self, launch: Launch, reason: NoCpuForm) -> int:
        return self._why(f"{self._program(launch).name}: {reason}")


def _work(cost: Cost) -> float:
    """One figure for what takes time: operations, and each byte that is written as one more."""
    return cost.flops + cost.bytes


def _first(pair: tuple[int, Value]) -> int:
    return pair[0]


def _results_everywhere(launch: Launch, local: list[Value]) -> list[Value] | None:
    """On all devices, what on this host's is one output of one execution on the same devices."""
    maker = local[0].launch()
    if maker is None or (maker.num_devices, maker.logical_ids) != (
        launch.num_devices,
        launch.logical_ids,
    ):
        return None
    output = local[0].place()[1]
    for device, value in zip(launch.logical_ids, local, strict=True):
        made_by = value.launch()
        if made_by is None or made_by.number != maker.number or value.place() != (device, output):
            return None
    everywhere = [v for v in maker.results(output) if v is not None]
    return everywhere if len(everywhere) == maker.num_devices else None


def _array(value: Value) -> np.ndarray[Any, Any]:
    """The contents as an array in the memory that holds them."""
    contents = value.contents()
    if contents is None:
        raise _Unknown(value.why or WHY_FORGOTTEN)
    dtype = ElementType(value.element_type).numpy_dtype
    if 0 in value.dims:
        return np.zeros(value.dims, dtype)
    return np.frombuffer(contents, np.uint8).view(dtype).reshape(value.dims)


def _know(
    values: list[Value | None], shards: list[np.ndarray[Any, Any]], parts: Sequence[int]
) -> None:
    """Gives the results of an output on each device to those that somebody needs.

    Devices that hold the same part of it get the same bytes.
    """
    known: dict[int, Value] = {}
    for value, shard, part in zip(values, shards, parts, strict=True):
        if value is None:
            continue
        if part in known:
            value.know_as(known[part])
            continue
        array = np.ascontiguousarray(shard)
        value.know(array.reshape(-1).view(np.uint8) if array.size else b"")
        known[part] = value


def _in_a_line(error: Exception) -> str:
    """What an error says, on one line."""
    text = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return f"{type(error).__name__}: {text}"[:500]
