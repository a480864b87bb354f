"""The programs that ran, and the parts of them that can run on CPUs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from jaxlib.mlir import ir

from vtpu.values.cost import Cost, estimate_cost
from vtpu.values.cpu_client import CpuClient, CpuProgram, TookTooLong
from vtpu.values.cpu_form import HostCall, make_cpu_form
from vtpu.values.modules import dtype_of, read_module
from vtpu.values.one_device import is_for_any_device, make_for_one_device
from vtpu.values.replacements import NoCpuForm
from vtpu.values.slicing import keep_outputs
from vtpu.values.spread import Spread

_ONE_DEVICE = b""  # compile options as they are by default


class HostFunctions(Protocol):
    """The host functions of one execution, by local device and channel."""

    def send(self, device: int, channel: int, data: Any) -> None:
        """Hands a value over."""
        ...

    def receive(self, device: int, channel: int, size: int) -> bytearray:
        """Takes a value."""
        ...


class HostFunctionRaised(Exception):
    """A host function raised `raised`."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(str(raised))
        self.raised = raised


@dataclass
class Part:
    """A part of a program: some of its outputs, of `parameters` only.

    Made of text first, so that its cost is known, and compiled when it runs. `is_alike`: every
    device of the program computes the same, and one does it for all.
    """

    outputs: tuple[int, ...]
    parameters: tuple[int, ...]
    cost: Cost
    host_calls: tuple[HostCall, ...]
    is_alike: bool
    _module: Any
    _options: bytes
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _compiled: CpuProgram | None = None
    _functions: HostFunctions | None = None
    _raised: BaseException | None = None
    _late_goes_on: Callable[[], bool] | None = None

    def compile(self, client: CpuClient) -> CpuProgram:
        """The part as a program for CPUs, compiled the first time."""
        with self._lock:
            if self._compiled is None:
                functions = [self._function(call) for call in self.host_calls]
                self._compiled = client.compile(
                    self._module,
                    _ONE_DEVICE if self.is_alike else self._options,
                    () if self.is_alike else self.outputs,
                    () if self.is_alike else self.parameters,
                    functions,
                )
                self._module = None
            return self._compiled

    def run(
        self,
        client: CpuClient,
        arguments: Sequence[Sequence[Any]],
        deadline: float,
        functions: HostFunctions | None = None,
    ) -> list[list[Any]]:
        """The outputs on each device, calling the host by `functions`.

        Raises:
            TookTooLong, jax.errors.JaxRuntimeError: see `CpuProgram.run`. One that took too long and
                still goes on is not joined by another, which would only take its CPU.
            HostFunctionRaised: one of `functions` raised.
        """
        program = self.compile(client)
        if not self.host_calls:
            return self._run_in_time(program, arguments, deadline)
        with self._lock:
            self._functions, self._raised = functions, None
            try:
                return program.run_with_host_functions(arguments)
            except Exception as error:
                if self._raised:
                    raise HostFunctionRaised(self._raised) from error
                raise
            finally:
                self._functions = None

    def _run_in_time(
        self, program: CpuProgram, arguments: Sequence[Sequence[Any]], deadline: float
    ) -> list[list[Any]]:
        if self._late_goes_on and self._late_goes_on():
            raise TookTooLong(self._late_goes_on)
        run = program.run if self.cost.is_certain else program.run_aside
        try:
            return run(arguments, deadline)
        except TookTooLong as late:
            self._late_goes_on = late.goes_on
            raise

    def _function(self, call: HostCall) -> Callable[..., Any]:
        dtype = dtype_of(call.element) if call.element else np.dtype(np.uint8)

        def perform(token: Any, *values: Any) -> Any:
            device = int(values[-1]) if call.knows_device else 0
            try:
                assert self._functions is not None
                if call.is_send:
                    self._functions.send(device, call.channel, _bytes_of(values[0]))
                    return (token,)
                empty = np.empty(call.shape, dtype)
                data = self._functions.receive(device, call.channel, empty.nbytes)
                return token, np.frombuffer(data, np.uint8).view(dtype).reshape(call.shape)
            except BaseException as error:
                self._raised = self._raised or error
                raise

        return perform


def _bytes_of(value: Any) -> Any:
    array = np.ascontiguousarray(value)
    return array.reshape(-1).view(np.uint8) if array.size else b""


class Program:
    """A program as it was compiled for the slice: `code` is portable, `options` as JAX sent them.

    `tokens` are the outputs that hold nothing. `parameter_spreads` and `output_spreads` say how a
    partitioned program's arrays are spread, None where that is not known.
    """

    def __init__(
        self,
        name: str,
        code: bytes,
        options: bytes,
        num_replicas: int,
        num_partitions: int,
        num_outputs: int,
        tokens: tuple[int, ...],
        parameter_spreads: tuple[Spread | None, ...] = (),
        output_spreads: tuple[Spread | None, ...] = (),
    ) -> None:
        self.name = name
        self._code = code
        self._options = options
        self._num_replicas = num_replicas
        self._num_devices = num_replicas * num_partitions
        self.num_outputs, self.tokens = num_outputs, tokens
        self.parameter_spreads, self._output_spreads = parameter_spreads, output_spreads
        self._parts: dict[Any, Part | NoCpuForm] = {}
        self._lock = threading.Lock()

    def parts_of(self, output: int) -> Sequence[int]:
        """The number of the part of an output that each device holds; all differ where none is known."""
        spread = self._output_spreads[output] if output < len(self._output_spreads) else None
        return spread.parts if spread else range(self._num_devices)

    def part(self, outputs: frozenset[int]) -> Part:
        """What the outputs with these numbers need.

        Raises:
            NoCpuForm: it cannot run on CPUs.
        """
        return self._known(("part", outputs), lambda: self._make(outputs, with_host_calls=False))

    def whole(self) -> Part:
        """All of it, but for the calls of the host that nothing else needs.

        Raises:
            NoCpuForm: it cannot run on CPUs.
        """
        return self._known("whole", lambda: self._make(None, with_host_calls=False))

    def with_host_calls(self) -> Part:
        """All of it.

        Raises:
            NoCpuForm: it cannot run on CPUs.
        """
        return self._known("host", lambda: self._make(None, with_host_calls=True))

    def _known(self, key: Any, make: Callable[[], Part]) -> Part:
        with self._lock:
            if key not in self._parts:
                try:
                    self._parts[key] = make()
                except NoCpuForm as reason:
                    self._parts[key] = reason
            part = self._parts[key]
        if isinstance(part, NoCpuForm):
            raise part
        return part

    def _make(self, outputs: frozenset[int] | None, *, with_host_calls: bool) -> Part:
        module = read_module(self._code)
        form = make_cpu_form(
            module,
            num_replicas=self._num_replicas,
            with_host_calls=with_host_calls,
        )
        parameters, kept = form.parameters, form.outputs
        if outputs is not None:
            kept = tuple(o for o in form.outputs if o in outputs)
            places = keep_outputs(module, tuple(form.outputs.index(o) for o in kept))
            parameters = tuple(form.parameters[i] for i in places)
        is_alike = not form.host_calls and self._is_alike(module, parameters, kept)
        if is_alike:
            make_for_one_device(module)
        cost = estimate_cost(module)
        return Part(kept, parameters, cost, form.host_calls, is_alike, module, self._options)

    def _is_alike(
        self, module: ir.Module, parameters: tuple[int, ...], outputs: tuple[int, ...]
    ) -> bool:
        inputs, results = self.parameter_spreads, self._output_spreads
        if not results or self._num_replicas > 1:
            return False
        spreads = [inputs[i] if i < len(inputs) else None for i in parameters]
        spreads += [results[o] if o < len(results) else None for o in outputs]
        return all(s and s.is_replicated for s in spreads) and is_for_any_device(module)
