"""`vtpu explain`: what an out-of-memory text, a dump, a module, a profile or a recording says."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vtpu.cli.options import Json, refuse_replacing
from vtpu.errors import UsageError

if TYPE_CHECKING:
    from vtpu.analysis.explanation.dumps import DumpExplained
    from vtpu.analysis.explanation.recordings import RecordingExplained
    from vtpu.cli.artifacts import Artifact, FileArtifact, FolderArtifact
    from vtpu.report.explain_report import Explained


def explain_command(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE_OR_DIR...",
            help="A log or message, a folder of XLA dumps, HLO text or proto, memory.prof, a recording; "
            "`-` is standard input.",
        ),
    ],
    module: Annotated[
        str | None,
        typer.Option("--module", metavar="NAME", help="The program to show in detail."),
    ] = None,
    json: Json = None,
) -> None:
    """Say what took the memory: of an error, a dump, a module, a profile or a recording."""
    from vtpu.report.explain_report import explain_document
    from vtpu.report.text import print_document

    refuse_replacing({"--json": json}, read=files)
    explained = explain_all(files, module)
    if json != "-":
        for number, each in enumerate(explained):
            if number:
                print()
            print_document(explain_document(each), sys.stdout)
    if json:
        from vtpu.report.explain_json import explained_as_json
        from vtpu.report.json_output import write_json

        write_json(explained_as_json(explained), json)


def explain_all(names: list[str], module: str | None = None) -> tuple[Explained, ...]:
    """What is found in files and folders. `module`: the program to look at in detail.

    Raises:
        UsageError: one of them cannot be explained.
    """
    from vtpu.cli.artifacts import open_artifacts

    artifacts = [artifact for name in names for artifact in open_artifacts(name)]
    log = _texts(artifacts)
    return tuple(_explain(a, module, log) for a in artifacts)


def _texts(artifacts: list[Artifact]) -> str:
    """All messages that were given: they may be about a dump that was given with them."""
    from vtpu.cli.artifacts import FileArtifact, FolderArtifact
    from vtpu.reading.recognize import Kind

    if not any(isinstance(a, FolderArtifact) for a in artifacts):
        return ""
    files = (a for a in artifacts if isinstance(a, FileArtifact))
    return "\n".join(a.text for a in files if a.kind is Kind.MESSAGES)


def _explain(artifact: Artifact, module: str | None, log: str) -> Explained:
    """Raises UsageError: it is cut or damaged, or has no program of that name."""
    from vtpu.cli.artifacts import FolderArtifact

    if isinstance(artifact, FolderArtifact):
        return _explain_folder(artifact, module, log)
    return _explain_file(artifact, module)


def _explain_file(artifact: FileArtifact, module: str | None) -> Explained:
    from vtpu.analysis.explanation.explanations import explain_profile, explain_text
    from vtpu.analysis.explanation.printed_dumps import explain_printed
    from vtpu.reading.recognize import Kind

    match artifact.kind:
        case Kind.MESSAGES:
            return explain_text(artifact.name, artifact.text, artifact.problems)
        case Kind.MEMORY_PROFILE:
            return explain_profile(artifact.name, artifact.data)
        case Kind.RECORDING:
            return _explain_recording(artifact.name, module)
        case Kind.BUFFER_ASSIGNMENT | Kind.USAGE_REPORT | Kind.LIVE_RANGE:
            return explain_printed(artifact.name, artifact.kind, artifact.text)
        case _:
            return _explain_program(artifact)


def _explain_recording(name: str, module: str | None) -> RecordingExplained:
    from vtpu.analysis.explanation.recordings import NoSuchProgram, explain_recording
    from vtpu.recording.file import load_recording

    try:
        recording = load_recording(Path(name))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from error
    try:
        return explain_recording(name, recording, module)
    except NoSuchProgram as error:
        names = ", ".join(sorted({p.name for p in recording.programs})[:10]) or "none"
        raise UsageError(f"{name} has no program named {error}; it has {names}") from error


def _explain_folder(artifact: FolderArtifact, module: str | None, log: str) -> DumpExplained:
    from vtpu.analysis.explanation.dumps import NoSuchModule, explain_dump
    from vtpu.cli.artifacts import read_part

    try:
        read = partial(read_part, artifact.name)
        return explain_dump(artifact.name, artifact.dump, read, module, log)
    except NoSuchModule as error:
        names = ", ".join(sorted({m.name for m in artifact.dump.modules})[:10])
        raise UsageError(f"{artifact.name} has no module named {error}; it has {names}") from error


def _explain_program(artifact: FileArtifact) -> Explained:
    from vtpu.analysis.explanation.explanations import explain_program
    from vtpu.analysis.program.report import Origin
    from vtpu.reading.hlo_text import HloTextError
    from vtpu.reading.program_files import read_program
    from vtpu.reading.wire import WireError

    try:
        memory = read_program(artifact.kind, artifact.data)
    except (WireError, HloTextError) as error:
        raise UsageError(
            f"{artifact.name} looks like {artifact.kind.value}, but cannot be read: {error}. It may be "
            "cut: copy or dump it again."
        ) from error
    origin = Origin(name=memory.module.name, source=artifact.name)
    return explain_program(artifact.name, memory, origin)
