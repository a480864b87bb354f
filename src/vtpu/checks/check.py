"""Does a program fit a slice, and where does every byte of its memory go."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from vtpu.analysis.program.memory import MemoryUsage
from vtpu.analysis.program.report import Origin, ProgramReport, report_program
from vtpu.analysis.source_lines import UserLines
from vtpu.analysis.time.programs import time_on_slice
from vtpu.analysis.time.report import TimeReport
from vtpu.checks.compiling import compile_program, start_compiling_anew
from vtpu.checks.lowering import lower
from vtpu.checks.modules import start_compiling, start_exported, start_lowered
from vtpu.chips import Slice, parse_slice
from vtpu.clock.program_time import ProgramTime
from vtpu.device.attach import (
    Session,
    compiling_session,
    current_session,
    devices_to_compile_for,
)
from vtpu.device.donation import is_donation_off
from vtpu.device.settings import read_settings
from vtpu.errors import UsageError
from vtpu.findings.finding import Finding
from vtpu.findings.search import find_in_program
from vtpu.findings.subjects import program_subject
from vtpu.program.modules import Module
from vtpu.recording.recording import ProgramRecord
from vtpu.report.document import Document
from vtpu.report.findings_sections import findings_sections
from vtpu.report.program_report import program_document
from vtpu.report.source_text import Sources
from vtpu.report.text import print_document

#: Models the time of one execution of a compiled module on a device of a slice.
TimeOf = Callable[[Module, Slice], ProgramTime]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A program compiled for a slice. Printed, it is the report."""

    slice: Slice
    report: ProgramReport
    record: ProgramRecord

    @property
    def fits(self) -> bool:
        """Whether the compiler found room for the program on every device."""
        return bool(self.report.fits)

    @property
    def error(self) -> str | None:
        """What the compiler said when it did not fit."""
        return self.report.error

    @property
    def usage(self) -> MemoryUsage | None:
        """The memory by space: every buffer, the curve, the peak.

        None when the compiler gave up before it placed anything.
        """
        return self.report.usage

    @property
    def time(self) -> TimeReport | None:
        """How long one execution takes, and why; None where it was not modelled."""
        return self.report.time

    @property
    def need_bytes(self) -> int | None:
        """HBM that the program needs per device: arguments, results, temporaries, constants."""
        return self.report.need_bytes

    @property
    def limit_bytes(self) -> int | None:
        """HBM that the compiler grants per device."""
        return self.report.limit_bytes

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What rules find wrong with it, worst first."""
        return find_in_program(program_subject(self.report, self.record))

    @property
    def document(self) -> Document:
        """The report as a tree of values."""
        line = Sources(self.report.origin.folder).line
        return program_document(self.report, findings_sections(self.findings, line))

    def __str__(self) -> str:
        """The report as plain text."""
        text = io.StringIO()
        print_document(self.document, text)
        return text.getvalue()


def check(
    target: Any, /, *args: Any, on: str | None = None, exact: bool = False, **kwargs: Any
) -> Check:
    """Compiles a program for a slice, without a chip, and says where its memory goes.

    Args:
        target: a function (jitted or not), a `jax.stages.Lowered` for TPUs, a `jax.export.Exported` or
            its bytes, StableHLO or HLO as text or bytes.
        args: the function's arguments: arrays or `jax.ShapeDtypeStruct`, with shardings if any. A
            mesh of other devices becomes one of the slice's.
        on: the slice, in any dialect: `"v5e-16"`. Default: the attached one, else `VTPU_ON`, else
            `v5e-16`.
        exact: pack the peak of the heap exactly too (`pip install 'vtpu[exact]'`); takes seconds.
        kwargs: the function's keyword arguments.

    Raises:
        vtpu.errors.UsageError: the arguments and the slice do not go together.
        vtpu.checks.compiling.CompileFailed: the program does not compile, and not for want of memory.
        vtpu.errors.CompilerDied, vtpu.errors.CompilerMissing: libtpu crashed or is not installed.
        Exception: whatever the function raises while it is traced.
    """
    return check_call(target, args, kwargs, on, exact=exact)


def check_call(
    target: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    on: str | None = None,
    *,
    exact: bool = False,
    time_of: TimeOf | None = time_on_slice,
) -> Check:
    """The same with the arguments apart, so that one of them may be called `on`.

    `time_of` models how long one execution of a compiled module takes on a device of the slice. Of a
    program that does not fit no time is told.
    """
    attached = current_session()
    wanted = parse_slice(on) if on else attached.slice if attached else _default_slice()
    session = compiling_session()
    is_attached = attached is not None and attached.slice == wanted
    devices = None if is_attached else devices_to_compile_for(session, wanted)
    start = _preparation(target, args, kwargs, devices, session, wanted)
    record, memory = compile_program(session, wanted, start)
    if is_donation_off(
        getattr(target, "_jit_info", None)
    ):  # seen at the call, which is none of ours
        record = replace(record, donation_is_off=True)
    run = session.recorder.run
    origin = Origin(
        name=record.name,
        slice=wanted.name,
        num_devices=record.num_replicas * record.num_partitions,
        versions=run.versions,
        compile_s=record.compile_s,
        was_known=record.from_cache,
        folder=run.folder,
    )
    report = report_program(
        memory,
        origin,
        UserLines(run.library_folders),
        fits=record.error is None,
        error=record.error,
        exact=exact,
        time=time_of(memory.module, wanted) if time_of and memory and not record.error else None,
    )
    return Check(slice=wanted, report=report, record=record)


def _default_slice() -> Slice:
    return parse_slice(read_settings().slice)


def _preparation(
    target: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    devices: list[Any] | None,
    session: Session,
    wanted: Slice,
) -> Callable[[], Any]:
    """What compiles the target. Tracing happens here, so that its errors are the user's own."""
    import jax.export

    if isinstance(target, jax.export.Exported) and (args or kwargs):
        target = target.call
    if callable(target):
        return start_compiling_anew(lower(target, args, kwargs, devices))
    if isinstance(target, jax.stages.Lowered) and devices is None:
        return start_compiling_anew(target)
    described = devices or devices_to_compile_for(session, wanted)
    if isinstance(target, jax.stages.Lowered):
        return start_lowered(target, described)
    if isinstance(target, jax.export.Exported):
        return start_exported(target, described)
    if isinstance(target, str | bytes | bytearray):
        return start_compiling(target, described)
    raise UsageError(
        f"there is nothing to compile in {type(target).__name__}. Give a function with its arguments, "
        "a jax.stages.Lowered, a jax.export.Exported or its bytes, or StableHLO or HLO as text or bytes."
    )
