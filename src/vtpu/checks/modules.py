"""Programs that come as modules: exported ones, StableHLO, HLO; as text or as bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from vtpu.errors import UsageError
from vtpu.reading import wire
from vtpu.reading.hlo_text import parse_hlo_text

_SHARDINGS = ("mhlo.sharding", "sdy.sharding")
_TILES = re.compile(r"devices=\[([\d,]+)\]")
_BYTECODE = b"ML\xefR"
_PORTABLE = b"StableHLO_v"  # the producer, behind the version of the bytecode


def start_compiling(target: str | bytes | bytearray, devices: Sequence[Any]) -> Callable[[], Any]:
    """What compiles a module for the first of `devices`, as many as it is made for.

    Raises:
        UsageError: it is no module, or one for more devices.
    """
    data = target.encode() if isinstance(target, str) else bytes(target)
    exported = _exported(data)
    if exported is not None:
        return start_exported(exported, devices)
    return _start_stablehlo(_stablehlo(data), devices)


def start_lowered(lowered: Any, devices: Sequence[Any]) -> Callable[[], Any]:
    """What compiles a `jax.stages.Lowered`, whatever devices it was lowered with, for these.

    Raises:
        UsageError: it is lowered for another platform, or for more devices.
    """
    platforms = lowered._lowering._platforms  # noqa: SLF001, it tells nowhere else
    if platforms != ("tpu",):
        raise UsageError(
            f"what was given is lowered for {', '.join(platforms)}. Give the function with its "
            "arguments, or lower it for TPUs: "
            "`jax.jit(f).trace(...).lower(lowering_platforms=('tpu',))`."
        )
    return _start_stablehlo(lowered.compiler_ir("stablehlo"), devices)


def _exported(data: bytes) -> Any:
    """The `jax.export.Exported` in `data`, or None."""
    if data.startswith(_BYTECODE) or _as_text(data):
        return None
    import jax.export

    try:
        return jax.export.deserialize(bytearray(data))
    except ImportError:
        raise
    except Exception:  # whatever foreign bytes lead flatbuffers to: then they are another form
        return None


def start_exported(exported: Any, devices: Sequence[Any]) -> Callable[[], Any]:
    """What compiles a `jax.export.Exported` for the arguments that it was exported with.

    Raises:
        UsageError: it was exported for another platform, or for more devices.
    """
    import jax

    from vtpu.checks.lowering import place

    if "tpu" not in exported.platforms:
        raise UsageError(
            f"this program was exported for {', '.join(exported.platforms)}. Export it for TPUs: "
            "`jax.export.export(f, platforms=['tpu'])`."
        )
    if exported.nr_devices > len(devices):
        raise UsageError(
            f"this program was exported for {exported.nr_devices} devices, and the slice has "
            f"{len(devices)}. Name a larger slice."
        )
    if any(not isinstance(d, int) for aval in exported.in_avals for d in aval.shape):
        raise UsageError(
            "this program was exported with symbolic dimensions. Say how large they are: "
            "`vtpu.check(exported, *args)`, with arrays or jax.ShapeDtypeStruct."
        )
    if exported.platforms == ("tpu",):
        return _start_stablehlo(_stablehlo(exported.mlir_module_serialized), devices)
    if exported.nr_devices > 1:
        raise UsageError(
            "this program was exported for several platforms and several devices. Export it for TPUs "
            "alone: `jax.export.export(f, platforms=['tpu'])`."
        )
    leaves = place([jax.ShapeDtypeStruct(a.shape, a.dtype) for a in exported.in_avals], devices)
    args, kwargs = jax.tree.unflatten(exported.in_tree, leaves)
    return jax.jit(exported.call).lower(*args, **kwargs).compile


def _stablehlo(data: bytes) -> Any:
    """The module of StableHLO (text, bytecode, portable bytecode) or HLO (text, proto)."""
    from jax.extend.mlir import hlo_to_stablehlo
    from jax.interpreters import mlir
    from jaxlib.mlir import ir

    context = mlir.make_ir_context()
    context.attach_diagnostic_handler(lambda _: True)  # MLIR prints what nobody handles
    try:
        if data.startswith(_BYTECODE):
            return _parse_bytecode(context, data)
        text = _as_text(data)
        if text and text.lstrip().startswith("HloModule"):
            return ir.Module.parse(hlo_to_stablehlo(parse_hlo_text(text)), context=context)
        if text:
            return ir.Module.parse(text, context=context)
        return ir.Module.parse(hlo_to_stablehlo(_inner_module(data)), context=context)
    except Exception as error:  # MLIR's, XLA's and protobuf's errors have no common type
        reason = str(error).strip().split("\n")[0][:200]
        raise UsageError(
            "this is no program that can be compiled: not bytes of jax.export, nor StableHLO or HLO as "
            f"text or bytes ({reason}). Optimised HLO does not compile again."
        ) from error


def _parse_bytecode(context: Any, data: bytes) -> Any:
    """A module from bytecode. What is damaged must not come to StableHLO's reader, which crashes."""
    from jax.extend.mlir import deserialize_portable_artifact
    from jaxlib.mlir import ir

    context.allow_unregistered_dialects = True  # the portable form is a dialect of its own
    with context:
        module = ir.Module.parse(data)
        is_portable = _PORTABLE in data[: len(_BYTECODE) + 16]
        return deserialize_portable_artifact(data) if is_portable else module


def _as_text(data: bytes) -> str:
    """The text that `data` is; empty for other bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in text else text


def _inner_module(data: bytes) -> bytes:
    """The `HloModuleProto` of an `HloProto`, which has it in its first field; else the bytes."""
    try:
        inner = bytes(wire.find_bytes(data, 1))
        return inner if wire.find_all(inner, 3) else data
    except wire.WireError:  # the first field of an `HloModuleProto` is a name
        return data


def _start_stablehlo(module: Any, devices: Sequence[Any]) -> Callable[[], Any]:
    from jax._src.lib import xla_client  # pyright: ignore[reportPrivateImportUsage]
    from jax.extend.backend import get_compile_options

    replicas = _attribute(module, "mhlo.num_replicas")
    partitions = max(_attribute(module, "mhlo.num_partitions"), _devices_of_shardings(module))
    count = replicas * partitions
    if count > len(devices):
        raise UsageError(
            f"this program is for {count} devices, and the slice has {len(devices)}. Name a larger "
            "slice."
        )
    chosen = list(devices[:count])
    ids = np.array([d.id for d in chosen]).reshape(replicas, partitions)
    options = get_compile_options(replicas, partitions, device_assignment=ids)
    build = options.executable_build_options
    build.use_shardy_partitioner = "sdy." in str(module)[:1_000_000]
    build.allow_spmd_sharding_propagation_to_parameters = _may_be_sharded(module, "arg_attrs")
    build.allow_spmd_sharding_propagation_to_output = _may_be_sharded(module, "res_attrs")
    executable_devices = xla_client.DeviceList(tuple(chosen))
    return lambda: chosen[0].client.compile(module, executable_devices, options)


def _may_be_sharded(module: Any, kind: str) -> list[bool]:
    """For each argument or result of the program whether the compiler may choose its sharding.

    As JAX does: where none is written.
    """
    given = _attributes_of_main(module, kind)
    return [not any(a.name in _SHARDINGS for a in one) for one in given] or [False]


def _devices_of_shardings(module: Any) -> int:
    """For how many devices arguments and results are: the text of an HLO module does not say."""
    given = [*_attributes_of_main(module, "arg_attrs"), *_attributes_of_main(module, "res_attrs")]
    tiles = [_TILES.search(str(one["mhlo.sharding"])) for one in given if "mhlo.sharding" in one]
    return max((prod(map(int, found[1].split(","))) for found in tiles if found), default=1)


def _attributes_of_main(module: Any, kind: str) -> list[Any]:
    functions = (f for f in module.body.operations if "sym_name" in f.attributes)
    main = next((f for f in functions if str(f.attributes["sym_name"]) == '"main"'), None)
    if main is None:
        raise UsageError("this module has no function `main`, which is what compiles.")
    return list(main.attributes[kind]) if kind in main.attributes else []


def _attribute(module: Any, name: str) -> int:
    attributes = module.operation.attributes
    return int(attributes[name].value) if name in attributes else 1
