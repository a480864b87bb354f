"""From a compiled program to an executable of the native core, and back from a serialized one."""

from __future__ import annotations

import itertools
import json
import struct
import zlib
from dataclasses import dataclass, replace
from functools import cached_property

from vtpu.compiler.results import Compiled, OutputFacts, pack, unpack_compiled
from vtpu.compiler.service import Answer
from vtpu.device import _core
from vtpu.device.shapes import ShapeSpec, shape_spec, token_spec
from vtpu.program.element_types import ElementType
from vtpu.program.locations import CANONICAL_FILE, SourceStacks
from vtpu.program.shapes import ArrayShape
from vtpu.reading.compile_options import CompileOptions, read_compile_options
from vtpu.reading.hlo_module import (
    ModuleInterface,
    read_interface,
    replace_stack_frames,
)
from vtpu.recording.recording import ProgramRecord

_MEMORY_KINDS = {"device": 0, "pinned_host": 1, "unpinned_host": 2}
_SERIALIZED = b"vtpu-executable-2\n"


@dataclass(frozen=True)
class LoadableProgram:
    """A compiled program with the text it came from and the options it was asked with."""

    compiled: Compiled
    key: str
    locations: tuple[str, ...]
    code: bytes
    options_data: bytes

    @classmethod
    def of_answer(cls, answer: Answer, code: bytes, options_data: bytes) -> LoadableProgram:
        """The program that the compiler answered for `code`."""
        return cls(answer.compiled, answer.key, answer.source.locations, code, options_data)

    @cached_property
    def options(self) -> CompileOptions:
        """How the program is spread."""
        return read_compile_options(self.options_data)

    @cached_property
    def hlo(self) -> bytes:
        """The optimised module with the user's source lines."""
        hlo = self.compiled.hlo
        if not self.locations:
            return hlo
        return replace_stack_frames(hlo, CANONICAL_FILE, SourceStacks(self.locations))

    @cached_property
    def interface(self) -> ModuleInterface:
        """Parameters, donation and host transfers."""
        return read_interface(self.compiled.hlo)

    @cached_property
    def outputs(self) -> tuple[OutputFacts, ...]:
        """The results, each with its layout."""
        results = self.interface.results
        return tuple(
            facts if facts.layout or not result else replace(facts, layout=str(result.layout))
            for facts, result in zip(self.compiled.outputs, results, strict=True)
        )

    @property
    def donated(self) -> tuple[bool, ...]:
        """Per parameter: whether executing takes its memory, which is when an output gets it.

        A donor that the compiler found no output for stays alive.
        """
        taken = set(self.interface.aliases.values())
        return tuple(i in taken for i in range(len(self.interface.parameters)))

    def make_executable(self, number: int) -> int:
        """The core's executable, numbered as in the recording."""
        compiled, interface = self.compiled, self.interface
        outputs = [
            (
                _spec(ElementType(o.element_type), o.dims, o.layout),
                _MEMORY_KINDS[o.memory_kind],
                interface.aliases.get(i, -1),
            )
            for i, o in enumerate(self.outputs)
        ]
        return _core.new_executable(
            program=number,
            name=compiled.name,
            num_replicas=self.options.num_replicas,
            num_partitions=self.options.num_partitions,
            outputs=outputs,
            parameters=[_parameter_spec(p) for p in interface.parameters],
            donated=self.donated,
            host_transfers=[
                (
                    t.channel,
                    t.is_send,
                    t.element_type,
                    t.logical_bytes,
                    -1 if t.only_on is None else t.only_on,
                )
                for t in interface.host_transfers
            ],
            temp_bytes=compiled.hbm_temp_bytes,
            memory_stats=compiled.memory_stats,
            costs=compiled.costs,
            fingerprint=compiled.fingerprint,
            hlo=self.hlo,
            options=self.options_data,
            serialized=self.serialize(),
        )

    def serialize(self) -> bytes:
        """The program as bytes that need no compiler to load."""
        header = json.dumps({"key": self.key, "locations": self.locations}).encode()
        packed = pack(self.compiled)
        parts = [header, packed, zlib.compress(self.code, 1), self.options_data]
        return b"".join([_SERIALIZED, struct.pack("<4Q", *map(len, parts)), *parts])

    @classmethod
    def deserialize(cls, data: bytes, options_data: bytes | None) -> LoadableProgram:
        """The program that `serialize` wrote, with other compile options if given.

        Raises:
            ValueError: the bytes are of something else.
        """
        start = len(_SERIALIZED) + 32
        if data[: len(_SERIALIZED)] != _SERIALIZED or len(data) < start:
            raise ValueError("not an executable that this version of vtpu serialized")
        sizes = struct.unpack("<4Q", data[len(_SERIALIZED) : start])
        ends = [start, *(start + sum(sizes[: i + 1]) for i in range(4))]
        header, packed, code, own_options = (
            data[begin:end] for begin, end in itertools.pairwise(ends)
        )
        fields = json.loads(header)
        return cls(
            compiled=unpack_compiled(packed),
            key=fields["key"],
            locations=tuple(fields["locations"]),
            code=zlib.decompress(code),
            options_data=options_data or own_options,
        )


def _spec(element_type: ElementType, dims: tuple[int, ...], layout: str) -> ShapeSpec:
    if element_type is ElementType.TOKEN:
        return token_spec(dims)
    return shape_spec(element_type, dims, layout)


def _parameter_spec(parameter: ArrayShape | None) -> ShapeSpec | None:
    if parameter is None:
        return None
    return _spec(parameter.element_type, parameter.dims, str(parameter.layout))


def shape_text(element_type: ElementType, dims: tuple[int, ...], layout: str) -> str:
    """A shape as XLA prints it: `f32[8,128]{1,0:T(8,128)}`."""
    return f"{element_type.xla_name}[{','.join(map(str, dims))}]{layout}"


def describe(
    program: LoadableProgram, number: int, device_ids: tuple[int, ...], **facts: object
) -> ProgramRecord:
    """What the recording keeps of a program. `facts` are further fields of `ProgramRecord`."""
    compiled, interface = program.compiled, program.interface
    code, arguments, outputs, alias, temp, _, *host, peak, _ = compiled.memory_stats
    return ProgramRecord(
        number=number,
        name=compiled.name,
        key=program.key,
        num_replicas=program.options.num_replicas,
        num_partitions=program.options.num_partitions,
        device_ids=device_ids,
        argument_bytes=arguments,
        output_bytes=outputs,
        alias_bytes=alias,
        temp_bytes=compiled.hbm_temp_bytes,
        temp_field_bytes=temp,
        generated_code_bytes=code,
        host_argument_bytes=host[0],
        host_output_bytes=host[1],
        host_alias_bytes=host[2],
        host_temp_bytes=host[3],
        peak_memory_field_bytes=peak,
        flops=compiled.costs.get("flops"),
        bytes_accessed=compiled.costs.get("bytes accessed"),
        num_parameters=len(interface.parameters),
        num_outputs=len(program.outputs),
        donated_parameters=tuple(i for i, d in enumerate(program.donated) if d),
        parameter_shapes=tuple(
            shape_text(p.element_type, p.dims, str(p.layout)) if p else "?"
            for p in interface.parameters
        ),
        output_shapes=tuple(
            shape_text(ElementType(o.element_type), o.dims, o.layout) for o in program.outputs
        ),
        has_host_callbacks=bool(interface.host_transfers),
        compile_s=compiled.compile_s,
        locations=program.locations,
        hlo=compiled.packed_hlo,
        assignment=compiled.packed_assignment,
        log=compiled.packed_log,
        **facts,  # type: ignore[arg-type]
    )
