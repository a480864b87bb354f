"""Opens what people point at: says what a file or folder is and reads what is needed of it.

Contents decide, not names. Of a foreign file only the first bytes are read; of a log that is too
large, its begin and its end.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vtpu.errors import UsageError
from vtpu.reading.dump_names import DumpFolder, dump_files
from vtpu.reading.recognize import Kind, as_text, recognize

STDIN = "-"
_HEAD_BYTES = 256 << 10
_LONGEST_TEXT_BYTES = 256 << 20  # of a log: XLA's longest messages have a few hundred lines
_KEPT_OF_LONG_TEXT_BYTES = 32 << 20  # at the begin, and again at the end
_LARGEST_BYTES = 2 << 30  # a protobuf message is no larger
_MOST_FILES = 200_000
_MOST_IN_FOLDER = 50

EXPECTED = (
    "vtpu explain reads a text with out-of-memory messages, a folder of XLA dumps, HLO text or an HLO "
    "proto, a memory.prof of jax.profiler.save_device_memory_profile, or a recording of vtpu run"
)
_TEXTS = (Kind.MESSAGES, Kind.HLO_TEXT, Kind.BUFFER_ASSIGNMENT, Kind.USAGE_REPORT, Kind.LIVE_RANGE)
_MODULES = (Kind.HLO_PROTO, Kind.HLO_MODULE, Kind.HLO_WITH_CONFIG)
_READ = (*_TEXTS, *_MODULES, Kind.MEMORY_PROFILE, Kind.RECORDING)
_PROGRAMS = (Kind.STABLEHLO_TEXT, Kind.MLIR_BYTECODE, Kind.EXPORT)
_MAY_BE_MORE = (Kind.TEXT, Kind.JSON)  # until all of it is read


@dataclass(frozen=True, slots=True)
class FileArtifact:
    """A file (or standard input) that a reader knows. `problems`: what of it was not read.

    A recording has no `data`: whoever loads it reads `name`.
    """

    name: str
    kind: Kind
    data: bytes
    problems: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The contents as text."""
        return as_text(self.data)


@dataclass(frozen=True, slots=True)
class FolderArtifact:
    """A folder of XLA dumps. Paths in `dump` begin at the folder."""

    name: str
    dump: DumpFolder
    problems: tuple[str, ...] = ()


Artifact = FileArtifact | FolderArtifact


def open_artifacts(name: str) -> tuple[Artifact, ...]:
    """What `name` is: a file, `-` for standard input, a folder of dumps, or one of such files.

    Raises:
        UsageError: it cannot be read, or is nothing that a reader knows.
    """
    if name == STDIN:
        return (_from_stdin(),)
    with _readable(name):
        mode = Path(name).stat().st_mode
        if stat.S_ISDIR(mode):
            return _from_folder(name)
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise UsageError(f"{name} is a device or socket, not a file. {EXPECTED}.")
        return (open_file(name),)


def open_file(name: str) -> FileArtifact:
    """The file `name`.

    Raises:
        UsageError: it cannot be read, or is nothing that a reader knows.
    """
    with _readable(name), Path(name).open("rb") as file:
        head = file.read(_HEAD_BYTES)
        size = os.fstat(file.fileno()).st_size
        kind = recognize(head)
        _refuse(name, kind)
        if kind is Kind.RECORDING:
            return FileArtifact(name, kind, b"")
        if kind in (*_MODULES, Kind.MEMORY_PROFILE):
            if size > _LARGEST_BYTES:
                raise UsageError(
                    f"{name} is larger than a module can be: it is damaged or foreign."
                )
            return FileArtifact(name, kind, head + file.read())
        data, problems = _text_of(head, file, size)
        return _text_artifact(name, data, problems)


def read_part(folder: str, path: str) -> bytes:
    """A file of a dump folder.

    Raises:
        UsageError: it cannot be read, or is larger than such a file can be.
    """
    whole = str(Path(folder) / path)
    with _readable(whole):
        if Path(whole).stat().st_size > _LARGEST_BYTES:
            raise UsageError(f"{whole} is larger than a module can be: it is damaged or foreign.")
        return Path(whole).read_bytes()


def _from_stdin() -> FileArtifact:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("`-` reads standard input: pipe or redirect a log into vtpu explain.")
    data = sys.stdin.buffer.read(_LONGEST_TEXT_BYTES + 1)
    kind = recognize(data)
    name = "standard input"
    if kind is Kind.RECORDING:
        raise UsageError("a recording cannot come from standard input: name its file.")
    _refuse(name, kind)
    if kind in (*_MODULES, Kind.MEMORY_PROFILE):
        return FileArtifact(name, kind, data)
    is_long = len(data) > _LONGEST_TEXT_BYTES
    problems = (f"only its first {_LONGEST_TEXT_BYTES >> 20} MiB were read",) if is_long else ()
    return _text_artifact(name, data, problems)


def _text_of(head: bytes, file: BinaryIO, size: int) -> tuple[bytes, tuple[str, ...]]:
    if size <= _LONGEST_TEXT_BYTES:
        return head + file.read(_LONGEST_TEXT_BYTES), ()
    begin = head + file.read(_KEPT_OF_LONG_TEXT_BYTES - len(head))
    file.seek(size - _KEPT_OF_LONG_TEXT_BYTES)
    mib = _KEPT_OF_LONG_TEXT_BYTES >> 20
    problem = (
        f"it has {size:,} bytes: only its first and last {mib} MiB were read, so numbers of lines in "
        "the last part are not those of the file"
    )
    return begin + b"\n[...]\n" + file.read(_KEPT_OF_LONG_TEXT_BYTES), (problem,)


def _text_artifact(name: str, data: bytes, problems: tuple[str, ...]) -> FileArtifact:
    """A text whose end decides too: a message may stand anywhere in a log."""
    kind = recognize(data)
    if kind in _MAY_BE_MORE or kind not in _READ:
        raise UsageError(
            f"{name} is {kind.value}: no message about memory is in it. {EXPECTED}. If it is a log, "
            "the part with the error is missing: look for RESOURCE_EXHAUSTED."
        )
    return FileArtifact(name, kind, data, problems)


def _refuse(name: str, kind: Kind) -> None:
    """Refuses what its first bytes say is foreign."""
    if kind in _READ or kind in _MAY_BE_MORE:
        return
    if kind is Kind.EMPTY:
        raise UsageError(f"{name} is empty. {EXPECTED}.")
    if kind in _PROGRAMS:
        raise UsageError(
            f"{name} is {kind.value}, a program that is not compiled: `vtpu check {name} --on SLICE` "
            "compiles it and says where its memory goes."
        )
    if kind in (Kind.ARCHIVE, Kind.GZIP):
        raise UsageError(f"{name} is {kind.value}: unpack it first. {EXPECTED}.")
    raise UsageError(f"{name} is {kind.value}. {EXPECTED}.")


# ---- folders -----------------------------------------------------------------------------------


def _from_folder(name: str) -> tuple[Artifact, ...]:
    paths, problems = _paths(name)
    dump = dump_files(paths)
    if dump.modules:
        return (FolderArtifact(name, dump, problems),)
    found = [a for path in paths if "/" not in path and (a := _known(str(Path(name) / path)))]
    if not found:
        what = (
            "is empty"
            if not paths
            else f"has no file that vtpu explain knows ({len(paths):,} files)"
        )
        raise UsageError(
            f"{name} {what}. XLA dumps its modules with XLA_FLAGS=--xla_dump_to=FOLDER, or "
            f'compile(compiler_options={{"xla_dump_to": FOLDER}}). {EXPECTED}.'
        )
    return tuple(found[:_MOST_IN_FOLDER])


def _known(name: str) -> FileArtifact | None:
    """A file in a folder, or None where it is nothing that a reader knows."""
    try:
        return open_file(name) if Path(name).is_file() else None
    except UsageError:
        return None  # a folder may hold anything; what no reader knows is not asked for


def _paths(name: str) -> tuple[list[str], tuple[str, ...]]:
    """The files of a folder and below it, as paths that begin there."""
    paths: list[str] = []
    for folder, folders, files in os.walk(name):
        folders.sort()
        inside = os.path.relpath(folder, name)
        paths += [file if inside == "." else f"{inside}/{file}" for file in sorted(files)]
        if len(paths) > _MOST_FILES:
            return paths, (f"it has more than {_MOST_FILES:,} files: the rest was not looked at",)
    return paths, ()


@contextmanager
def _readable(name: str) -> Generator[None]:
    """Makes errors of the system a message."""
    try:
        yield
    except FileNotFoundError:
        raise UsageError(f"{name} does not exist. {EXPECTED}.") from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL byte in the name
        raise UsageError(f"{name!r} is no name of a file: {error}") from error
