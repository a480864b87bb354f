"""libtpu through the PJRT C ABI, by ctypes. Only a worker process imports this.

Every call that libtpu refuses raises `Refused` with its code and message. What libtpu cannot
refuse it ends the process for; see `worker`.
"""

from __future__ import annotations

import ctypes
import os
import time
import zlib
from dataclasses import replace
from typing import Any

from vtpu.compiler.inspections import Inspector
from vtpu.compiler.results import Compiled, DeviceFacts, OutputFacts, TopologyFacts
from vtpu.pjrt.abi import load_abi
from vtpu.pjrt.structs import struct

_LAYOUTS_EXTENSION = load_abi().enums["PJRT_Extension_Type"]["PJRT_Extension_Type_Layouts"]


class Refused(Exception):
    """libtpu answered with an error: a PJRT error code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _load(path: str) -> ctypes.CDLL:
    """The library. `CDLL` alone would hold Python's lock meanwhile, and the worker could not end."""
    loader = ctypes.CDLL(None)
    loader.dlopen.restype = ctypes.c_void_p
    handle = loader.dlopen(os.fsencode(path), os.RTLD_NOW)
    return ctypes.CDLL(path, handle=handle or None)  # without a handle: Python's own error


def _bytes_at(pointer: int | None, size: int) -> bytes:
    return ctypes.string_at(pointer, size) if pointer and size else b""


def _array_at(element: Any, pointer: int | None, count: int) -> list[Any]:
    return list((element * count).from_address(pointer)) if pointer and count else []


def _named_values(pointer: int | None, count: int) -> dict[str, Any]:
    kinds = load_abi().enums["PJRT_NamedValue_Type"]
    values: dict[str, Any] = {}
    for v in _array_at(struct("PJRT_NamedValue"), pointer, count):
        name = _bytes_at(v.name, v.name_size).decode()
        if v.type == kinds["PJRT_NamedValue_kString"]:
            values[name] = _bytes_at(v.string_value, v.value_size).decode()
        elif v.type == kinds["PJRT_NamedValue_kInt64List"]:
            values[name] = _array_at(ctypes.c_int64, v.int64_array_value, v.value_size)
        elif v.type == kinds["PJRT_NamedValue_kInt64"]:
            values[name] = v.int64_value
        elif v.type == kinds["PJRT_NamedValue_kFloat"]:
            values[name] = v.float_value
        else:
            values[name] = bool(v.bool_value)
    return values


class _Memory:
    """C values that must live as long as a call."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def text(self, value: bytes) -> int:
        buffer = ctypes.create_string_buffer(value, len(value) + 1)
        self._kept.append(buffer)
        return ctypes.addressof(buffer)

    def int64s(self, values: Any) -> int:
        array = (ctypes.c_int64 * max(len(values), 1))(*values)
        self._kept.append(array)
        return ctypes.addressof(array)

    def named_values(self, values: dict[str, Any]) -> int:
        kinds = load_abi().enums["PJRT_NamedValue_Type"]
        array = (struct("PJRT_NamedValue") * max(len(values), 1))()
        for v, (name, value) in zip(array, values.items(), strict=False):
            v.struct_size = ctypes.sizeof(v)
            v.name, v.name_size = self.text(name.encode()), len(name.encode())
            v.value_size = 1
            if isinstance(value, str):
                v.type = kinds["PJRT_NamedValue_kString"]
                v.string_value, v.value_size = self.text(value.encode()), len(value.encode())
            elif isinstance(value, bool):
                v.type, v.bool_value = kinds["PJRT_NamedValue_kBool"], value
            elif isinstance(value, int):
                v.type, v.int64_value = kinds["PJRT_NamedValue_kInt64"], value
            else:
                v.type = kinds["PJRT_NamedValue_kInt64List"]
                v.int64_array_value, v.value_size = self.int64s(value), len(value)
        self._kept.append(array)
        return ctypes.addressof(array)


class Libtpu:
    """The plugin's function table, loaded from the shared object at `path`."""

    def __init__(self, path: str) -> None:
        library = _load(path)
        library.GetPjrtApi.restype = ctypes.c_void_p
        self._table: int = library.GetPjrtApi()
        self._offsets = {f.name: f.offset for f in load_abi().functions}
        self._layouts = self._find_extension(_LAYOUTS_EXTENSION)
        self._topologies: dict[str, int] = {}
        self._call("PJRT_Plugin_Initialize")
        attributes = self._call("PJRT_Plugin_Attributes")
        self.attributes = _named_values(attributes.attributes, attributes.num_attributes)

    def _find_extension(self, kind: int) -> int:
        at = ctypes.c_void_p.from_address(self._table + 8).value
        while at:
            base = struct("PJRT_Extension_Base").from_address(at)
            if base.type == kind:
                return at
            at = base.next
        raise Refused(12, "this libtpu has no layouts extension")

    def _call_at(self, address: int, name: str, **fields: Any) -> Any:
        args = struct(name + "_Args")()
        args.struct_size = load_abi().structs[name + "_Args"].size
        for field, value in fields.items():
            setattr(args, field, value)
        pointer = ctypes.c_void_p.from_address(address).value
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(pointer or 0)
        error = function(ctypes.addressof(args))
        if error and not name.startswith("PJRT_Error_"):
            self._raise(error)
        return args

    def _call(self, name: str, **fields: Any) -> Any:
        return self._call_at(self._table + self._offsets[name], name, **fields)

    def _call_layouts(self, function: str, **fields: Any) -> Any:
        offsets = {f.name: f.offset for f in load_abi().structs["PJRT_Layouts_Extension"].fields}
        return self._call_at(self._layouts + offsets[function], function, **fields)

    def _raise(self, error: int) -> None:
        message = self._call("PJRT_Error_Message", error=error)
        text = _bytes_at(message.message, message.message_size).decode(errors="replace")
        code = self._call("PJRT_Error_GetCode", error=error).code
        self._call("PJRT_Error_Destroy", error=error)
        raise Refused(code, text)

    # ---- topologies ----

    def topology(self, name: str, options: dict[str, Any]) -> int:
        """The handle of a topology; made once."""
        key = repr((name, sorted(options.items())))
        if key not in self._topologies:
            memory = _Memory()
            self._topologies[key] = self._call(
                "PJRT_TopologyDescription_Create",
                topology_name=memory.text(name.encode()),
                topology_name_size=len(name.encode()),
                create_options=memory.named_values(options),
                num_options=len(options),
            ).topology
        return self._topologies[key]

    def describe_topology(self, name: str, options: dict[str, Any]) -> TopologyFacts:
        """Everything libtpu says of a topology."""
        handle = self.topology(name, options)
        raw = self._call("PJRT_TopologyDescription_Attributes", topology=handle)
        attributes = _named_values(raw.attributes, raw.num_attributes)
        version = self._call("PJRT_TopologyDescription_PlatformVersion", topology=handle)
        found = self._call("PJRT_TopologyDescription_GetDeviceDescriptions", topology=handle)
        handles = _array_at(ctypes.c_void_p, found.descriptions, found.num_descriptions)
        devices = tuple(self._describe_device(d) for d in handles)
        first = devices[0].attributes if devices else {}
        return TopologyFacts(
            name=name,
            options=options,
            platform_version=_bytes_at(
                version.platform_version, version.platform_version_size
            ).decode(),
            stablehlo_current=tuple(self.attributes["stablehlo_current_version"]),
            stablehlo_minimum=tuple(self.attributes["stablehlo_minimum_version"]),
            hbm_bytes=first.get(
                "device_memory_bytes_limit", attributes.get("device_memory_bytes_limit", 0)
            ),
            attributes=attributes,
            devices=devices,
            serialized=self._serialize_topology(handle),
        )

    def _serialize_topology(self, handle: int) -> bytes:
        try:
            raw = self._call("PJRT_TopologyDescription_Serialize", topology=handle)
        except Refused:  # libtpu: "ToProto is unsupported" for several slices
            return b""
        return _bytes_at(raw.serialized_bytes, raw.serialized_bytes_size)

    def _describe_device(self, handle: int) -> DeviceFacts:
        def ask(what: str) -> Any:
            return self._call("PJRT_DeviceDescription_" + what, device_description=handle)

        kind, debug, text = ask("Kind"), ask("DebugString"), ask("ToString")
        attributes = ask("Attributes")
        return DeviceFacts(
            id=ask("Id").id,
            process_index=ask("ProcessIndex").process_index,
            kind=_bytes_at(kind.device_kind, kind.device_kind_size).decode(),
            debug_string=_bytes_at(debug.debug_string, debug.debug_string_size).decode(),
            to_string=_bytes_at(text.to_string, text.to_string_size).decode(),
            attributes=_named_values(attributes.attributes, attributes.num_attributes),
        )

    # ---- layouts ----

    def default_layout(self, topology: int, element_type: int, dims: tuple[int, ...]) -> str:
        """The layout that an array gets when nobody asks for one: `{1,0:T(8,128)}`."""
        memory = _Memory()
        layout = self._call_layouts(
            "PJRT_Layouts_PJRT_Topology_GetDefaultLayout",
            topology_description=topology,
            type=element_type,
            dims=memory.int64s(dims),
            num_dims=len(dims),
        ).layout
        text = self._layout_text(layout)
        self._call_layouts("PJRT_Layouts_MemoryLayout_Destroy", layout=layout)
        return text

    def _layout_text(self, layout: int) -> str:
        raw = self._call_layouts("PJRT_Layouts_MemoryLayout_Serialize", layout=layout)
        text = _bytes_at(raw.serialized_bytes, raw.serialized_bytes_size).decode()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(raw.serialized_layout_deleter)(
            raw.serialized_layout
        )
        return text

    # ---- compiling ----

    def compile(self, topology: int, code: bytes, code_format: str, options: bytes) -> Compiled:
        """Compiles a program (`mlir` or `hlo` bytes) under serialized compile options."""
        memory, inspector = _Memory(), Inspector()
        code = inspector.install(code)
        program = struct("PJRT_Program")()
        program.struct_size = load_abi().structs["PJRT_Program"].size
        program.code, program.code_size = memory.text(code), len(code)
        program.format, program.format_size = memory.text(code_format.encode()), len(code_format)
        began = time.monotonic()
        executable = self._call(
            "PJRT_Compile",
            topology=topology,
            program=ctypes.addressof(program),
            compile_options=memory.text(options),
            compile_options_size=len(options),
        ).executable
        compile_s = time.monotonic() - began
        try:
            compiled = self._describe_executable(executable, compile_s)
            return replace(compiled, inspected=tuple(inspector.inspected))
        finally:
            self._call("PJRT_Executable_Destroy", executable=executable)

    def _describe_executable(self, executable: int, compile_s: float) -> Compiled:
        def ask(what: str) -> Any:
            return self._call("PJRT_Executable_" + what, executable=executable)

        name, fingerprint, costs = ask("Name"), ask("Fingerprint"), ask("GetCostAnalysis")
        stats = ask("GetCompiledMemoryStats")
        figures = [
            f.name
            for f in load_abi().structs["PJRT_Executable_GetCompiledMemoryStats_Args"].fields
            if f.type == "int64_t"
        ]
        return Compiled(
            name=_bytes_at(name.executable_name, name.executable_name_size).decode(),
            outputs=self._describe_outputs(executable),
            memory_stats=tuple(getattr(stats, figure) for figure in figures),
            hbm_temp_bytes=stats.temp_size_in_bytes,
            costs=_named_values(costs.properties, costs.num_properties),
            fingerprint=_bytes_at(
                fingerprint.executable_fingerprint, fingerprint.executable_fingerprint_size
            ),
            packed_hlo=zlib.compress(self._optimized_program(executable), 1),
            compile_s=compile_s,
        )

    def _describe_outputs(self, executable: int) -> tuple[OutputFacts, ...]:
        def ask(what: str) -> Any:
            return self._call("PJRT_Executable_" + what, executable=executable)

        count = ask("NumOutputs").num_outputs
        types = _array_at(ctypes.c_int, ask("OutputElementTypes").output_types, count)
        raw_dims = ask("OutputDimensions")
        ranks = _array_at(ctypes.c_size_t, raw_dims.dim_sizes, count)
        dims = iter(_array_at(ctypes.c_int64, raw_dims.dims, sum(ranks)))
        raw_kinds = ask("OutputMemoryKinds")
        sizes = _array_at(ctypes.c_size_t, raw_kinds.memory_kind_sizes, count)
        kinds = _array_at(ctypes.c_void_p, raw_kinds.memory_kinds, count)
        layouts = self._output_layouts(executable, count)
        return tuple(
            OutputFacts(
                element_type=types[i],
                dims=tuple(next(dims) for _ in range(ranks[i])),
                layout=layouts[i],
                memory_kind=_bytes_at(kinds[i], sizes[i]).decode(),
            )
            for i in range(count)
        )

    def _output_layouts(self, executable: int, count: int) -> list[str]:
        try:
            raw = self._call_layouts(
                "PJRT_Layouts_PJRT_Executable_GetOutputLayouts", executable=executable
            )
        except Refused:  # libtpu 0.0.42, when a result is a token
            return [""] * count
        handles = _array_at(ctypes.c_void_p, raw.layouts, count)
        return [self._layout_text(handle) for handle in handles]

    def _optimized_program(self, executable: int) -> bytes:
        program = struct("PJRT_Program")()
        program.struct_size = load_abi().structs["PJRT_Program"].size
        fields = {"executable": executable, "program": ctypes.addressof(program)}
        self._call("PJRT_Executable_OptimizedProgram", **fields)
        buffer = ctypes.create_string_buffer(program.code_size)
        program.code = ctypes.addressof(buffer)
        self._call("PJRT_Executable_OptimizedProgram", **fields)
        return buffer.raw[: program.code_size]
