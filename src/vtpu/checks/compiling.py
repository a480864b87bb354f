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
            with _with_the_compiler_alone():
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


def start_compiling_anew(lowered: Any) -> Callable[[], Any]:
    """What compiles a lowered program, also when JAX holds an executable of it.

    JAX would give that one without asking the compiler, and there would be nothing to look at.
    """

    def compile_anew() -> Any:
        from jax._src.interpreters import pxla

        inner = lowered
        while hasattr(inner, "lowered"):  # Flax and Equinox wrap JAX's
            inner = inner.lowered
        inner._lowering._executable = None  # noqa: SLF001, there is no other way
        pxla._cached_compilation.cache_clear()  # noqa: SLF001
        return lowered.compile()

    return compile_anew


@contextmanager
def _with_the_compiler_alone() -> Generator[None]:
    """Has JAX compile with the client of the devices, and with nothing else.

    For described devices JAX would first ask for a real backend of the platform. That starts all of its
    backends, after which no slice can be attached any more, and libtpu complains that there is no TPU.
    And what comes from JAX's own cache on disk tells nothing of its memory.
    """
    from jax._src import compilation_cache, compiler

    backend, cache = compiler._get_cross_compile_backend, compilation_cache.is_cache_used  # noqa: SLF001
    compiler._get_cross_compile_backend = lambda _client: None  # noqa: SLF001, no setting says that
    compilation_cache.is_cache_used = lambda _client: False
    try:
        yield
    finally:
        compiler._get_cross_compile_backend = backend  # noqa: SLF001
        compilation_cache.is_cache_used = cache
