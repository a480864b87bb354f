"""What `vtpu diff` compares: recordings, programs of recordings, dumps, results of `vtpu check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vtpu.analysis.program.memory import MemoryUsage, analyse_memory
from vtpu.analysis.program.recorded import memory_of
from vtpu.analysis.run.definitions import by_definition
from vtpu.analysis.run.programs import largest_program
from vtpu.analysis.source_lines import UserLines
from vtpu.errors import UsageError
from vtpu.program.memory import ProgramMemory
from vtpu.reading.buffer_assignment import find_assignment, read_assignment
from vtpu.reading.modules import read_wrapped_module
from vtpu.reading.wire import WireError
from vtpu.recording.file import MAGIC, parse_recording
from vtpu.recording.recording import Recording
from vtpu.report.program_json_reader import is_program, usage_from_json

_DUMPED = "*after_optimizations.hlo.pb"
_RECORDING = MAGIC.rstrip(b"0123456789\n")  # of any version
_KNOWN = (
    "vtpu diff compares recordings of `vtpu run` (run.vtpu), programs in them (run.vtpu::NAME), JSON "
    "of `vtpu check --json`, and XLA's dumps (a folder, or a *.after_optimizations.hlo.pb)"
)

Comparand = Recording | MemoryUsage


def load_comparand(name: str) -> Comparand:
    """A recording, or the memory of a program. `FILE::PROGRAM` is a program of a recording or folder.

    Raises:
        UsageError: it cannot be read, or is nothing that can be compared.
    """
    path, _, program = name.partition("::")
    if Path(path).is_dir():
        return _from_proto(*_dumped(Path(path), program))
    data = _read(path)
    if not data:
        raise UsageError(f"{path} is empty. {_KNOWN}.")
    if data.startswith(_RECORDING) or MAGIC.startswith(data):
        recording = parse_recording(data, path)
        return _program_of(recording, path, program) if program else recording
    if program:
        raise UsageError(f"{path} is no recording, so ::{program} names no program in it.")
    if data.lstrip()[:1] == b"{":
        return _from_json(data, path)
    return _from_proto(data, path)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL byte in the name
        raise UsageError(f"{path!r} is no name of a file: {error}") from error


# ---- programs ----------------------------------------------------------------------------------


def _program_of(recording: Recording, path: str, name: str) -> MemoryUsage:
    """The memory of the largest program of a name."""
    groups = [g for g in by_definition(recording) if g[0].name == name]
    programs = [program for group in groups for program in group]
    if not programs:
        names = ", ".join(dict.fromkeys(p.name for p in recording.programs)) or "none"
        raise UsageError(f"{path} has no program {name}; it has {names}.")
    program = largest_program(programs) or programs[0]
    memory = memory_of(program, recording.run)
    if memory is None:
        raise UsageError(f"{path} does not hold the compiled {name}: record the run again.")
    return _usage(memory, f"{path}::{name}", recording.run.library_folders)


def _usage(memory: ProgramMemory, name: str, libraries: tuple[str, ...] = ()) -> MemoryUsage:
    if not memory.assignment.allocations:
        raise UsageError(
            f"{name} has no buffer assignment: what the compiler placed where is not known. Dump with "
            "--xla_dump_hlo_as_proto, or record the run again."
        )
    return analyse_memory(memory, UserLines(libraries))


def _dumped(folder: Path, program: str) -> tuple[bytes, str]:
    """The dump of one program in a folder."""
    found = sorted(folder.glob(_DUMPED))
    chosen = [p for p in found if not program or f".{program}." in p.name]
    if len(chosen) == 1:
        return _read(str(chosen[0])), str(chosen[0])
    if not found:
        raise UsageError(f"{folder} has no {_DUMPED}. {_KNOWN}.")
    names = ", ".join(p.name for p in (chosen or found)[:10])
    what = "several programs" if chosen else f"no program {program}"
    raise UsageError(f"{folder} has {what}: name one of its files: {names}.")


def _from_proto(data: bytes, path: str) -> MemoryUsage:
    try:
        module = read_wrapped_module(data)
        assignment = find_assignment(data)
        memory = ProgramMemory(module=module, assignment=read_assignment(assignment, module))
    except WireError as error:
        raise UsageError(f"{path} is nothing that can be compared ({error}). {_KNOWN}.") from error
    if not module.computations:
        raise UsageError(f"{path} is nothing that can be compared: it holds no program. {_KNOWN}.")
    return _usage(memory, path)


def _from_json(data: bytes, path: str) -> MemoryUsage:
    try:
        value: Any = json.loads(data)
    except ValueError as error:
        raise UsageError(f"{path} is damaged JSON: {error}. {_KNOWN}.") from error
    if not is_program(value):
        raise UsageError(
            f"{path} is JSON, and not of `vtpu check --json`; of a run, compare the recording. {_KNOWN}."
        )
    try:
        return usage_from_json(value)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UsageError(f"{path} is damaged: {type(error).__name__}: {error}.") from error
