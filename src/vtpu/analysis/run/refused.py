"""Programs of a run that ran out of memory at compile time: by how much, and of what.

Every report asks; what takes a program apart is only loaded where one did not compile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vtpu.analysis.source_lines import SourceLine, UserLines
from vtpu.recording.recording import ProgramRecord, Recording

if TYPE_CHECKING:
    from vtpu.analysis.program.kernel_out_of_memory import KernelFailure
    from vtpu.analysis.program.memory import MemoryItem
    from vtpu.analysis.program.out_of_memory import Failure, HbmFailure

_MOST_PROGRAMS = 8  # each is read as a whole: part of a second
_MOST_BUFFERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeBuffer:
    """A buffer at the peak of a program that did not compile, and what it is. `padding_bytes`: of
    `bytes`; null where it is no array.
    """

    name: str
    bytes: int
    padding_bytes: int | None
    shape: str | None
    role: str
    layer: str
    line: SourceLine


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOutOfMemory:
    """Why a program did not compile: what it needs of a memory (`hbm`, `vmem`, ...) and may have.

    Bytes. `need_bytes` of HBM is exact, the sum of the compiler's allocations, and `largest` its
    largest buffers. Of other memories the sizes are those of the message, rounded as it prints them,
    and `kernel` is what asks for it, at `line`. Null: unknown.
    """

    space: str
    code: str | None
    page: str | None
    need_bytes: int | None
    limit_bytes: int | None
    over_bytes: int | None
    kernel: str | None
    line: SourceLine | None
    largest: tuple[LargeBuffer, ...]


def find_refused(recording: Recording) -> Mapping[int, CompileOutOfMemory]:
    """By number the programs that ran out of memory at compile time.

    Of the first few different ones: `vtpu explain` looks at all.
    """
    lines = UserLines(recording.run.library_folders)
    groups = _alike(p for p in recording.programs if p.error)
    found: dict[int, CompileOutOfMemory] = {}
    for group in groups[:_MOST_PROGRAMS]:
        if failure := _explain(group[0], recording, lines):
            found |= dict.fromkeys((p.number for p in group), _short(failure))
    return found


def _alike(programs: Iterable[ProgramRecord]) -> list[list[ProgramRecord]]:
    """The same program may be tried again and again."""
    groups: dict[str | int, list[ProgramRecord]] = {}
    for program in programs:
        groups.setdefault(program.key or program.number, []).append(program)
    return list(groups.values())


def _explain(program: ProgramRecord, recording: Recording, lines: UserLines) -> Failure | None:
    from vtpu.analysis.program.out_of_memory import explain_error, explain_failure
    from vtpu.analysis.program.recorded import memory_of

    memory = memory_of(program, recording.run)
    if memory is None:
        return explain_error(program.error or "", lines)
    return explain_failure(memory, lines)


def _short(failure: Failure) -> CompileOutOfMemory:
    from vtpu.analysis.program.kernel_out_of_memory import KernelFailure

    return _of_kernel(failure) if isinstance(failure, KernelFailure) else _of_hbm(failure)


def _of_hbm(failure: HbmFailure) -> CompileOutOfMemory:
    return CompileOutOfMemory(
        space="hbm",
        code=failure.refusal.code,
        page=failure.refusal.page,
        need_bytes=failure.need_bytes,
        limit_bytes=failure.limit_bytes,
        over_bytes=failure.over_bytes,
        kernel=None,
        line=None,
        largest=tuple(map(_buffer, failure.largest[:_MOST_BUFFERS])),
    )


def _buffer(item: MemoryItem) -> LargeBuffer:
    return LargeBuffer(
        name=item.name,
        bytes=item.bytes,
        padding_bytes=item.padding_bytes,
        shape=str(item.shape) if item.shape else None,
        role=str(item.role),
        layer=item.layer,
        line=item.line,
    )


def _of_kernel(failure: KernelFailure) -> CompileOutOfMemory:
    need, limit, over = failure.need, failure.limit, failure.over
    return CompileOutOfMemory(
        space=failure.space,
        code=failure.refusal.code,
        page=failure.refusal.page,
        need_bytes=need.bytes if need else None,
        limit_bytes=limit.bytes if limit else None,
        over_bytes=over.bytes if over else None,
        kernel=failure.kernel,
        line=failure.line,
        largest=(),
    )
