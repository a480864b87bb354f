"""Processes that trials run in: with a time limit, several at once, ended when they are not wanted."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LAST = 4000  # characters of what a process printed


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that ended; `exit_code` None: it ran out of time, or was not wanted any more."""

    exit_code: int | None
    stdout: str
    stderr: str


class Processes:
    """Runs processes, from any thread, until it is told to stop."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._is_stopped = False

    def run(
        self, words: Sequence[str], folder: str, environment: Mapping[str, str], limit_s: float
    ) -> Ended:
        """A process in a session of its own, so that Ctrl-C reaches only us."""
        with self._lock:
            if self._is_stopped:
                return Ended(exit_code=None, stdout="", stderr="")
            process = subprocess.Popen(
                words,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        try:
            out, err = process.communicate(timeout=limit_s)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            _end(process)
            out, err = process.communicate()
            code = None
        except BaseException:  # Ctrl-C: it is in a session of its own and would go on
            _end(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)
        is_ours = self._is_stopped and process.returncode < 0
        return Ended(exit_code=None if is_ours else code, stdout=out, stderr=err[-_LAST:])

    def stop(self) -> None:
        """Ends what runs, and starts nothing more."""
        with self._lock:
            self._is_stopped = True
            running = list(self._running)
        for process in running:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process with everything that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it is gone
        process.poll()


def read_text(path: Path) -> str:
    """A file's text; empty where the process did not come to write it."""
    return path.read_text(encoding="utf-8") if path.exists() else ""
