"""Runs programs on a virtual slice as people do, in processes of their own, and keeps what they left.

A `Bench` holds the folder where programs run and the environment they get; its cache of compiles
is shared by all tests, so a program that several tests run is compiled once.
"""

from __future__ import annotations

import json
import linecache
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vtpu.analysis.run.summary import RunSummary
from vtpu.analysis.run.transfers import Direction, TransferSummary
from vtpu.analysis.source_lines import SourceLine
from vtpu.findings.search import FAILED
from vtpu.recording.file import load_recording
from vtpu.recording.recording import Recording

VTPU = str(Path(sys.executable).with_name("vtpu"))
TIMEOUT_S = 900
REPORT_HEADING = "vtpu report\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that ended: its exit code (negative: the signal) and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def printed(self) -> str:
        """What the program itself printed, before the report."""
        return self.stdout.partition(REPORT_HEADING)[0]

    @property
    def report_text(self) -> str:
        """The report, as printed behind the program's own output; empty without one."""
        return self.stdout.partition(REPORT_HEADING)[2]

    def succeeded(self, printed: str = "") -> None:
        """Checks that the program ended well, printed just this and nothing on standard error."""
        __tracebackhide__ = True
        assert self.exit_code == 0, self.stderr[-4000:]
        assert self.printed == printed
        assert self.stderr == ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Ended):
    """A program that ran under `vtpu run`: the report as JSON, where the recording is."""

    summary: RunSummary
    recording_path: Path

    @property
    def recording(self) -> Recording:
        """The recording, loaded."""
        return load_recording(self.recording_path)

    @property
    def program_names(self) -> set[str]:
        """The names of everything that was compiled."""
        return {program.name for program in self.summary.programs}

    def program(self, name: str) -> Any:
        """The `ProgramSummary` of a name, of which there must be one; its sizes may be null."""
        found = [program for program in self.summary.programs if program.name == name]
        assert found, f"no {name} among {sorted(self.program_names)}"
        return found[0]

    def transfers(self, direction: Direction, text: str = "") -> list[TransferSummary]:
        """The transfers of one direction from source lines that contain `text`."""
        return [
            transfer
            for transfer in self.summary.transfers
            if transfer.direction == direction and text in source_of(transfer.line)
        ]

    def peaked_at(self, *texts: str, devices: int) -> None:
        """Checks that so many devices used HBM and the others none, and where they used most.

        `texts`: parts of the source lines where that may be; compilers differ in temporaries.
        """
        __tracebackhide__ = True
        assert len(self.summary.hbm) == self.summary.run.num_local_devices
        for number, device in enumerate(self.summary.hbm):
            if number < devices:
                assert 0 <= device.in_use_bytes <= device.peak_bytes <= device.limit_bytes
                at = source_of(device.peak_line)
                assert any(text in at for text in texts), at
            else:
                assert device.peak_bytes == 0


def source_of(line: SourceLine) -> str:
    """The text of a line of a program."""
    linecache.checkcache(line.file)  # a test may write its program anew
    return linecache.getline(line.file, line.line)


@dataclass(frozen=True, slots=True)
class Bench:
    """A folder to run programs in, with the environment they get."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, program: str | Path, *arguments: str, on: str = "v5e-8", host: int = 0, **more: str
    ) -> Run:
        """Runs a program under `vtpu run`; it must have used the slice. See `vtpu` and `program`.

        Args:
            program: a script, or the text of one.
            arguments: its own arguments.
            on: the slice.
            host: which host of it the program is.
            more: further environment variables.
        """
        report = self.folder / "report.json"
        options = ["--on", on, "--host", str(host), "--json", str(report)]
        report.unlink(missing_ok=True)
        ended = self.vtpu("run", *options, self.script(program), *arguments, **more)
        assert report.exists(), f"no report; exit code {ended.exit_code}\n{ended.stderr[-4000:]}"
        return Run(
            exit_code=ended.exit_code,
            stdout=ended.stdout,
            stderr=ended.stderr,
            summary=read_report(report),
            recording_path=self.folder / "run.vtpu",
        )

    def script(self, program: str | Path) -> str:
        """The path of a script; one that is given as text becomes `prog.py` in the folder."""
        if isinstance(program, Path):
            return str(program)
        path = self.folder / "prog.py"
        path.write_text(program)
        return "prog.py"

    def vtpu(self, *arguments: str, **more: str) -> Ended:
        """Runs the `vtpu` command in the folder."""
        return self.command([VTPU, *arguments], **more)

    def python(self, *arguments: str, **more: str) -> Ended:
        """Runs Python in the folder."""
        return self.command([sys.executable, *arguments], **more)

    def command(self, words: list[str], **more: str) -> Ended:
        """Runs a command in the folder, with further environment variables `more`."""
        done = subprocess.run(
            words,
            cwd=self.folder,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
            check=False,
        )
        return Ended(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def read_report(path: Path) -> RunSummary:
    """The report that `--json` wrote, checked against its schema's name and its types."""
    value: dict[str, Any] = json.loads(path.read_text())
    assert value.pop("schema") == "vtpu.run/1"
    assert value.pop("basis")
    assert not [f for f in value.pop("findings") if f["title"].startswith(FAILED)]
    return TypeAdapter(RunSummary).validate_python(value)
