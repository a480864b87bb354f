"""A CPU client of our own, beside the backends that the user's JAX has."""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax._src import array as jax_array
from jax._src import core, sharding_impls
from jax._src.lib import (
    _jax,  # pyright: ignore[reportPrivateImportUsage, reportAttributeAccessIssue]
    xla_client,  # pyright: ignore[reportPrivateImportUsage]
)
from jaxlib.mlir import ir

Array = np.ndarray[Any, Any]
Outputs = list[list[Array]]  # of each output, on each device
_PATIENCE_S = 0.1  # between two chances for a Ctrl-C


class TookTooLong(Exception):
    """A computation was not ready in time. It goes on, and nobody waits for it.

    `goes_on` tells whether it still does.
    """

    def __init__(self, goes_on: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self.goes_on = goes_on


@dataclass(frozen=True, slots=True)
class CpuProgram:
    """A program that can run."""

    loaded: Any
    devices: tuple[Any, ...]

    def run(self, arguments: Sequence[Sequence[Array]], deadline: float) -> Outputs:
        """The outputs on each device from the arguments on each device.

        Raises:
            TookTooLong: `deadline`, of `time.monotonic`, passed.
            jax.errors.JaxRuntimeError: XLA failed.
        """
        results = self._start(arguments)
        outputs = results.disassemble_into_single_device_arrays()
        _wait(outputs, deadline)
        return _fetch(outputs)

    def run_with_host_functions(self, arguments: Sequence[Sequence[Array]]) -> Outputs:
        """The same; returns when also the functions behind the last output have run.

        Raises:
            jax.errors.JaxRuntimeError: XLA or a host function failed.
        """
        results = self._start(arguments)
        token = results.consume_token()
        outputs = results.disassemble_into_single_device_arrays()
        token.block_until_ready()
        return _fetch(outputs)

    def run_aside(self, arguments: Sequence[Sequence[Array]], deadline: float) -> Outputs:
        """The same as `run` in a thread of its own, which may never end.

        XLA runs what looks cheap on the thread that asks, also a loop without an end.
        """
        done: queue.SimpleQueue[Outputs | Exception] = queue.SimpleQueue()

        def work() -> None:
            try:
                done.put(self.run(arguments, float("inf")))
            except Exception as error:  # it goes to who waits
                done.put(error)

        thread = threading.Thread(target=work, name="vtpu-values", daemon=True)
        thread.start()
        while True:
            try:
                result = done.get(timeout=min(_PATIENCE_S, max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() > deadline:
                    raise TookTooLong(thread.is_alive) from None
                continue
            if isinstance(result, Exception):
                raise result
            return result

    def _start(self, arguments: Sequence[Sequence[Array]]) -> Any:
        placed = [self._place(shards) for shards in arguments]
        return self.loaded.execute_sharded(placed, with_tokens=True)

    def _place(self, shards: Sequence[Array]) -> Any:
        arrays = [_put(x, d) for x, d in zip(shards, self.devices, strict=True)]
        if len(arrays) == 1:
            return arrays[0]
        return _assemble(shards[0], arrays, self.devices)


def _put(array: Array, device: Any) -> Any:
    return xla_client.batched_device_put(
        core.ShapedArray(array.shape, array.dtype),
        sharding_impls.SingleDeviceSharding(device),
        [array],
        [device],
        True,
        enable_x64=True,
    )


def _assemble(first: Array, arrays: list[Any], devices: tuple[Any, ...]) -> Any:
    """One array of the shards, whatever they hold: nothing compares replicated ones."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(devices), ("device",))
    if first.ndim:
        spec, shape = PartitionSpec("device"), (len(devices) * first.shape[0], *first.shape[1:])
    else:
        spec, shape = PartitionSpec(), ()
    return jax_array.ArrayImpl(
        core.ShapedArray(shape, first.dtype),
        NamedSharding(mesh, spec),
        arrays,
        committed=True,
        _skip_checks=True,
    )


def _fetch(outputs: Sequence[Sequence[Any]]) -> Outputs:
    return [[np.asarray(shard) for shard in shards] for shards in outputs]


def _are_ready(outputs: Sequence[Sequence[Any]]) -> bool:
    return all(shard.is_ready() for shards in outputs for shard in shards)


def _wait(outputs: Sequence[Sequence[Any]], deadline: float) -> None:
    pause = 2e-5
    for shards in outputs:
        for shard in shards:
            while not shard.is_ready():
                if time.monotonic() > deadline:
                    _keep_forever(outputs)
                    raise TookTooLong(lambda: not _are_ready(outputs))
                time.sleep(pause)
                pause = min(2 * pause, 0.01)


class CpuClient:
    """Compiles for virtual CPU devices. The client is made when first needed and never destroyed."""

    def __init__(self, num_devices: int) -> None:
        self.num_devices = num_devices
        self._client: Any = None
        self._lock = threading.Lock()

    def compile(
        self,
        module: ir.Module,
        options: bytes,
        outputs: tuple[int, ...],
        parameters: tuple[int, ...],
        functions: Sequence[Callable[..., Any]],
    ) -> CpuProgram:
        """Compiles `module`, which kept `parameters` and `outputs` of a program asked with `options`.

        Raises:
            jax.errors.JaxRuntimeError: XLA refuses.
        """
        wanted = _options_for_cpu(options, outputs, parameters)
        count = wanted.num_replicas * wanted.num_partitions
        devices = tuple(self._devices()[:count])
        loaded = self._client.compile_and_load(
            module, xla_client.DeviceList(devices), wanted, list(functions)
        )
        return CpuProgram(loaded, devices)

    def _devices(self) -> list[Any]:
        with self._lock:
            if self._client is None:
                self._client = _jax.get_tfrt_cpu_client(
                    asynchronous=True, num_devices=self.num_devices
                )
                _keep_forever(self._client)
            return self._client.devices()


def _keep_forever(thing: Any) -> None:
    """It is never destroyed: that would wait at the end for a computation that took too long."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


#: XLA ends the process when devices wait for each other longer than 40 s; a loaded machine is slower.
_PATIENCE = {
    "xla_cpu_collective_call_warn_stuck_seconds": "86400",
    "xla_cpu_collective_call_terminate_timeout_seconds": "86400",
    "xla_cpu_collective_timeout_seconds": "86400",
}


def _options_for_cpu(asked: bytes, outputs: tuple[int, ...], parameters: tuple[int, ...]) -> Any:
    options = xla_client.CompileOptions.ParseFromString(asked)
    options.env_option_overrides = list(_PATIENCE.items())
    build = options.executable_build_options
    replicas, partitions = max(1, build.num_replicas), max(1, build.num_partitions)
    options.num_replicas, options.num_partitions = replicas, partitions
    numbers = np.arange(replicas * partitions).reshape(replicas, partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(numbers)
    for name, kept in (
        ("allow_spmd_sharding_propagation_to_output", outputs),
        ("allow_spmd_sharding_propagation_to_parameters", parameters),
    ):
        flags = list(getattr(build, name))
        if len(flags) > 1:
            setattr(build, name, [flags[i] for i in kept if i < len(flags)])
    return options
