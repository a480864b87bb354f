"""Compiles a lowered program for a slice and takes what the compiler left of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from vtpu.analysis.recorded_programs import memory_of
from vtpu.chips import Slice
from vtpu.device.attach import Session
from vtpu.errors import UsageError, VtpuError
from vtpu.program.memory import ProgramMemory
from vtpu.recording.recording import ProgramRecord

_OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"


class CompileFailed(VtpuError):
    """The TPU compiler refused the program, and not for want of memory."""


def compile_program(
    session: Session, wanted: Slice, start: Callable[[], Any]
) -> tuple[ProgramRecord, ProgramMemory | None]:
    """The program that `start` compiles, and its memory where the compiler came that far.

    A program that runs out of memory has an `error`.

    Raises:
        CompileFailed: it does not compile for another reason.
        UsageError: `start` compiled nothing for a TPU.
    """
    with session.recorder.watch_programs() as seen:
        try:
            start()
        except jax.errors.JaxRuntimeError as error:
            if not str(error).startswith(_OUT_OF_MEMORY) or not seen:
                raise CompileFailed(str(error)) from error
    if not seen:
        raise UsageError(
            "Nothing was compiled for a TPU: what was given is lowered for another platform. Give "
            "the function with its arguments, or lower it for platform `tpu`."
        )
    record = seen[-1]
    facts = session.handlers.topology_facts(wanted.libtpu_name, dict(wanted.libtpu_options))
    memory = memory_of(record, session.recorder.run)
    if memory is not None:
        memory = replace(memory, limit_bytes=facts.hbm_bytes, chip=facts.devices[0].kind)
    return record, memory
