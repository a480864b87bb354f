"""Compiles a training step for its slice, without a chip, through vtpu's compiler and its cache."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any

from benchmarks.models.model import Model
from benchmarks.models.run import Run
from benchmarks.models.step import Program, build

from vtpu.checks.compiling import CompileFailed, compile_program, start_compiling_anew
from vtpu.chips import Slice, parse_slice
from vtpu.device.attach import compiling_session, devices_to_compile_for
from vtpu.recording.recording import ProgramRecord

_UNKNOWN = re.compile(r"No such compile option: '([^']+)'")
_DISABLE = re.compile(r"(?s)FAILED_PRECONDITION.*disable it with (\w+)")
_ALL_GATHER = "Continuation fusion for AllGather"  # says to disable more than it must
_FUSE_ALL_GATHER = "xla_tpu_enable_async_collective_fusion_fuse_all_gather"


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """A compiled training step. `dropped` are the flags that this compiler does not take.

    Of a step that does not fit, `record.error` is what the compiler said.
    """

    slice: Slice
    record: ProgramRecord
    dropped: tuple[str, ...]

    @property
    def hlo(self) -> bytes:
        """The optimised, scheduled module, an `HloModuleProtoWithConfig`; empty when there is none."""
        return (
            zlib.decompress(self.record.hlo) if self.record.hlo and not self.record.error else b""
        )

    @property
    def need_bytes(self) -> int | None:
        """HBM per device: arguments, results that are not donated, temporaries, code."""
        r = self.record
        if r.error:
            return None
        return (
            r.argument_bytes
            + r.output_bytes
            - r.alias_bytes
            + r.temp_bytes
            + r.generated_code_bytes
        )


def compile_step(model: Model, run: Run) -> CompiledStep:
    """Compiles the step; flags that the compiler refuses are left out and named.

    Raises:
        ValueError: model and run do not go together.
        CompileFailed: the compiler refuses the program for another reason.
        vtpu.errors.VtpuError: there is no such slice, or no compiler.
    """
    wanted = parse_slice(run.slice_name)
    session = compiling_session()
    program = build(model, run, devices_to_compile_for(session, wanted))
    options, dropped = dict(program.options), list[str]()
    while True:
        lowered = _lower(program, options)
        try:
            record, _ = compile_program(session, wanted, start_compiling_anew(lowered))
        except CompileFailed as failed:
            name = _refused(str(failed), options)
            if name is None:
                raise
            dropped.append(f"--{name}={options.pop(name)}")
            continue
        return CompiledStep(wanted, record, tuple(dropped))


def _lower(program: Program, options: dict[str, Any]) -> Any:
    return program.jitted(options).lower(program.state, program.batch)


def _refused(message: str, options: dict[str, Any]) -> str | None:
    """The option that the compiler complains of, if it is one of ours."""
    named = [_FUSE_ALL_GATHER] if _ALL_GATHER in message else []
    named += [match.group(1) for p in (_UNKNOWN, _DISABLE) for match in p.finditer(message)]
    return next((name for name in named if name in options), None)
