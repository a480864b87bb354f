"""Programs that come as modules: exported ones, StableHLO, HLO; as text or as bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vtpu.errors import UsageError

_BYTECODE = b"ML\xefR"


def is_module(target: Any) -> bool:
    """Whether `target` is a program as text or bytes."""
    return isinstance(target, str | bytes | bytearray)


def start_compiling(target: str | bytes | bytearray, devices: Sequence[Any]) -> Callable[[], Any]:
    """What compiles a module for the first of `devices`, as many as it is made for.

    Raises:
        UsageError: it is no module, or one for more devices.
    """
    data = target.encode() if isinstance(target, str) else bytes(target)
    exported = _exported(data)
    if exported is not None:
        return _start_exported(exported, devices)
    return _start_stablehlo(_stablehlo(data), devices)


def _exported(data: bytes) -> Any:
    """The `jax.export.Exported` in `data`, or None."""
    if data.startswith(_BYTECODE) or data[:64].lstrip().startswith((b"module", b"HloModule", b"#")):
        return None
    import jax.export

    try:
        return jax.export.deserialize(bytearray(data))
    except Exception:  # noqa: BLE001, flatbuffers raises whatever the bytes lead it to
        return None


def _start_exported(exported: Any, devices: Sequence[Any]) -> Callable[[], Any]:
    import jax
    from jax.sharding import Mesh

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
    if exported.nr_devices > 1:
        mesh = Mesh(np.array(devices[: exported.nr_devices], dtype=object), ("devices",))
        shardings = exported.in_shardings_jax(mesh)
        leaves = [
            jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s)
            for a, s in zip(exported.in_avals, shardings, strict=True)
        ]
    else:
        leaves = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in exported.in_avals]
        leaves = place(leaves, devices)
    args, kwargs = jax.tree.unflatten(exported.in_tree, leaves)
    return jax.jit(exported.call).lower(*args, **kwargs).compile


def _stablehlo(data: bytes) -> Any:
    """The module of StableHLO (text, bytecode, portable bytecode) or HLO (text, proto)."""
    from jax.extend import mlir as jax_mlir
    from jax.interpreters import mlir

    context = mlir.make_ir_context()
    try:
        if data.startswith(_BYTECODE):
            return _parse_bytecode(context, data)
        if b"HloModule" in data[:4096] and not data.lstrip().startswith(b"module"):
            data = _hlo_proto(data)
            return jax_mlir.ir.Module.parse(jax_mlir.hlo_to_stablehlo(data), context=context)
        if data[:4096].isascii() and b"module" in data:
            return jax_mlir.ir.Module.parse(data.decode(errors="replace"), context=context)
        return jax_mlir.ir.Module.parse(
            jax_mlir.hlo_to_stablehlo(_inner_module(data)), context=context
        )
    except Exception as error:  # MLIR's, XLA's and protobuf's errors have no common type
        reason = str(error).strip().split("\n")[0][:200]
        raise UsageError(
            "this is no program that can be compiled: not bytes of jax.export, nor StableHLO or HLO as "
            f"text or bytes ({reason}). Optimised HLO does not compile again."
        ) from error


def _parse_bytecode(context: Any, data: bytes) -> Any:
    from jax.extend import mlir as jax_mlir

    with context:
        try:
            return jax_mlir.ir.Module.parse(jax_mlir.deserialize_portable_artifact(data))
        except Exception:  # noqa: BLE001, then it is bytecode of a dialect as it is
            return jax_mlir.ir.Module.parse(data)


def _hlo_proto(text: bytes) -> bytes:
    from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

    return _hlo.hlo_module_from_text(text.decode()).as_serialized_hlo_module_proto()


def _inner_module(data: bytes) -> bytes:
    """The `HloModuleProto` of an `HloProto`, which has it in its first field; else the bytes."""
    from vtpu.reading import wire

    inner = bytes(wire.find_bytes(data, 1))
    return inner if wire.find_all(inner, 3) else data


def _start_stablehlo(module: Any, devices: Sequence[Any]) -> Callable[[], Any]:
    from jax._src.lib import xla_client
    from jax.extend.backend import get_compile_options

    replicas = _attribute(module, "mhlo.num_replicas")
    partitions = _attribute(module, "mhlo.num_partitions")
    count = replicas * partitions
    if count > len(devices):
        raise UsageError(
            f"this program is for {count} devices, and the slice has {len(devices)}. Name a larger "
            "slice."
        )
    chosen = list(devices[:count])
    ids = np.array([d.id for d in chosen]).reshape(replicas, partitions)
    options = get_compile_options(replicas, partitions, device_assignment=ids)
    options.executable_build_options.use_shardy_partitioner = "sdy." in str(module)[:1_000_000]
    executable_devices = xla_client.DeviceList(tuple(chosen))
    return lambda: chosen[0].client.compile(module, executable_devices, options)


def _attribute(module: Any, name: str) -> int:
    attributes = module.operation.attributes
    return int(attributes[name].value) if name in attributes else 1
