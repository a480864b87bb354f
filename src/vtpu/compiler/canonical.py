"""A program without the places of its source lines, and the table of those places.

Every operation of a StableHLO program carries where in the user's file it came from. Moving a
comment changes those places and nothing else. Before a program is hashed and compiled, the location
of operation number i becomes `"its name"("vtpu"("vtpu":i))`, so that the compiler's result refers to
operations by number; the places themselves are kept in a table that belongs to this program text.
A result that was compiled for another text of the same program is read through the new table.

Works on the VHLO bytes that JAX sends, which are read and written back without conversion.
"""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo
from jaxlib.mlir.passmanager import PassManager

from vtpu.compiler.inspections import CALLBACK_BYTES, placeholder
from vtpu.program.locations import CANONICAL_FILE, parse_location, quote, unescape_bytes

_BYTECODE = b"ML\xefR"


@dataclass(frozen=True, slots=True)
class CanonicalProgram:
    """A program and its places: `locations[i]` is what MLIR prints for operation i.

    `inspections[i]` is the callback that placeholder i stands for, see `inspections`.
    """

    code: bytes
    locations: tuple[str, ...]
    inspections: tuple[bytes, ...] = ()


def canonicalize(code: bytes) -> CanonicalProgram:
    """The program of portable StableHLO `code`, made independent of its places.

    Raises:
        ValueError: the bytes are not a module, or hold a dialect that jaxlib does not know.
    """
    context = ir.Context()
    stablehlo.register_dialect(context)
    sdy.register_dialect(context)
    with context:
        context.attach_diagnostic_handler(lambda _: True)  # the user's stderr is not for us
        _load_vhlo(context)
        try:
            if not code.startswith(_BYTECODE):
                raise ValueError("not a portable StableHLO program")
            module = ir.Module.parse(code)
        except ir.MLIRError as error:
            raise ValueError(f"not a portable StableHLO program: {error}") from error
        locations, inspections = _canonicalize_operations(module)
        return CanonicalProgram(_write(module, like=code), locations, inspections)


def _load_vhlo(context: ir.Context) -> None:
    """Loads the dialect of portable programs, which only reading one does."""
    empty = ir.Module.create(ir.Location.unknown())
    version = stablehlo.get_minimum_version()
    portable = stablehlo.serialize_portable_artifact(empty, version)
    stablehlo.deserialize_portable_artifact(context, portable)


def _canonicalize_operations(module: ir.Module) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
    locations: list[str] = []
    inspections: dict[bytes, int] = {}

    def visit(operation: Any) -> Any:
        text = str(operation.location)
        location = ir.Location.file(CANONICAL_FILE, len(locations), 0)
        if names := parse_location(text).names:  # around a frame: a function's name and a place
            location = ir.Location.name(CANONICAL_FILE, location)
            for name in reversed(names):
                location = ir.Location.name(name, location)
        operation.location = location
        locations.append(text)
        target = _call_target(operation)
        if target == "tpu_custom_call":
            _strip_kernel(operation)
        elif target == "InspectSharding":
            _take_out_callback(operation, inspections)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return tuple(locations), tuple(inspections)


def _call_target(operation: Any) -> str | None:
    attributes = operation.attributes
    if "call_target_name" not in attributes or "backend_config" not in attributes:
        return None
    return unescape_bytes(_string_literal(attributes["call_target_name"])).decode()


def _string_literal(attribute: Any) -> str:
    """What stands between the quotes of `#vhlo.string_v1<"...">`."""
    printed = str(attribute)
    return printed[printed.index('"') + 1 : printed.rindex('"')]


def _take_out_callback(operation: Any, inspections: dict[bytes, int]) -> None:
    attributes = operation.attributes
    callback = unescape_bytes(_string_literal(attributes["backend_config"]))
    if len(callback) == CALLBACK_BYTES:
        number = inspections.setdefault(callback, len(inspections))
        text = placeholder(number).decode()
        attributes["backend_config"] = ir.Attribute.parse(f"#vhlo.string_v1<{quote(text)}>")


def _write(module: ir.Module, like: bytes) -> bytes:
    """The module as bytecode of the version and producer that `like` begins with."""
    out = io.BytesIO()
    module.operation.write_bytecode(out, like[4] >> 1)  # behind the magic: the version, a varint
    written = out.getvalue()
    return like[:5] + like[5 : like.index(b"\0", 5)] + written[written.index(b"\0", 5) :]


# ---- kernels: a Mosaic module hides in a string, with places of its own -----------------------


def _strip_kernel(operation: Any) -> None:
    attributes = operation.attributes
    config = json.loads(unescape_bytes(_string_literal(attributes["backend_config"])))
    kernel = config.get("custom_call_config", {})
    if "debug_locations" in kernel:
        del kernel["debug_locations"]
    elif "body" in kernel:
        kernel["body"] = _strip_body(kernel["body"])
    text = json.dumps(config, separators=(",", ":"))
    attributes["backend_config"] = ir.Attribute.parse(f"#vhlo.string_v1<{quote(text)}>")


def _strip_body(body: str) -> str:
    """A kernel's bytecode (base64) without its places; as it is when it cannot be read."""
    from jaxlib.mosaic.python import tpu  # only programs with kernels need it

    context = ir.Context()
    context.allow_unregistered_dialects = True  # the serialized form has a dialect of its own
    tpu.register_dialect(context)
    try:
        with context:
            context.attach_diagnostic_handler(lambda _: True)
            kernel = ir.Module.parse(base64.b64decode(body))
            PassManager.parse("builtin.module(strip-debuginfo)").run(kernel.operation)
            out = io.BytesIO()
            kernel.operation.write_bytecode(out)
    except ir.MLIRError:
        return body
    return base64.b64encode(out.getvalue()).decode()
