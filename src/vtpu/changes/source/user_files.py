"""The user's files that a program comes from."""

from __future__ import annotations

from pathlib import Path

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.situation import Situation


def user_files(situation: Situation) -> list[SourceFile]:
    """The files of the user's that the run went through, that of the step's call first."""
    site, line, run = situation.site, situation.program.line, situation.run.recording
    names = [line.file] if line else []
    names += [site.file.name] if site else []
    if situation.target.is_script:
        names.append(situation.target.name)
    names += [f.file for stack in run.stacks for f in stack]
    module = situation.program.module
    names += [f.file for stack in (module.stacks if module else ()) for f in stack]
    libraries = tuple(f.rstrip("/") + "/" for f in run.run.library_folders)
    own = [n for n in dict.fromkeys(names) if not n.startswith(libraries)]
    found = {_real(situation, f): f for n in own if (f := situation.files.get(n)) is not None}
    return list(found.values())


def _real(situation: Situation, file: SourceFile) -> str:
    return str(Path(situation.target.folder, file.name).resolve())
