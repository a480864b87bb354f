"""Compiles a lowered program for a slice and takes what the compiler left of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax

from vtpu.analysis.program.recorded import memory_of
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
            with _no_backend_of_jax():
                start()
        except jax.errors.JaxRuntimeError as error:
            if not str(error).startswith(_OUT_OF_MEMORY) or not seen:
                raise CompileFailed(str(error)) from error
    if not seen:
        raise UsageError(
            "Nothing was compiled for a TPU: the function itself names devices of another backend (in "
            "in_shardings, say). Attach the slice before they are made (`vtpu.attach`), or use "
            "`vtpu check`, which does."
        )
    record = seen[-1]
    facts = session.handlers.topology_facts(wanted.libtpu_name, dict(wanted.libtpu_options))
    memory = memory_of(record, session.recorder.run)
    if memory is not None:
        memory = replace(memory, limit_bytes=facts.hbm_bytes, chip=facts.devices[0].kind)
    return record, memory


@contextmanager
def _no_backend_of_jax() -> Generator[None]:
    """Compiles for described devices with their own client alone.

    JAX would first ask for a real backend of the same platform. That starts all of its backends, after
    which no slice can be attached any more, and libtpu complains that there is no TPU.
    """
    from jax._src import compiler

    asked = compiler._get_cross_compile_backend  # noqa: SLF001, there is no setting for it
    compiler._get_cross_compile_backend = lambda _client: None  # noqa: SLF001
    try:
        yield
    finally:
        compiler._get_cross_compile_backend = asked  # noqa: SLF001
