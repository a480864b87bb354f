"""The worker processes that hold libtpu: started when needed, reused, replaced when they die.

One compile uses two threads and much memory, so there are few workers; a request waits for a free
one. While it waits for an answer, the caller's `poll` runs a few times a second, so that Ctrl-C can
end a compile.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO

from vtpu.compiler.frames import Message, encode_frame, read_frame
from vtpu.errors import CompilerDied, CompilerMissing

# `monotonic` by name: a program that replaces `time.monotonic` means its own.
_POLL_S = 0.1
_STARTING_S = 30.0  # what a new worker gets beside, to load libtpu on a busy machine
_LOG_TAIL_BYTES = 32 << 10
_INFORMATION = re.compile(r"I\d{4} \d\d:\d\d:")  # how libtpu begins a line that is no warning
_WORKER_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # no lock file
    "TPU_SKIP_MDS_QUERY": "1",  # no question to a cloud's metadata server
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",  # these three only silence warnings at start
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "TPU_STDERR_LOG_LEVEL": "0",  # the log tells why a program does not fit
}


def find_libtpu() -> Path:
    """The shared object of the installed libtpu.

    Raises:
        CompilerMissing: there is none.
    """
    spec = importlib.util.find_spec("libtpu")
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        library = Path(folder) / "libtpu.so"
        if library.is_file():
            return library
    raise CompilerMissing(
        "libtpu, the TPU compiler, is not installed here. On Linux x86-64 `pip install 'jax[tpu]'` "
        "brings the release that the installed jax goes with; for other platforms there is none. "
        "Saved recordings can still be read: `vtpu show run.vtpu`."
    )


class CompilerStopped(Exception):
    """The pool was closed while somebody waited for an answer."""


@dataclass(slots=True)
class _Worker:
    """A process with its streams, what it prints, and the folder of libtpu's own log files."""

    process: subprocess.Popen[bytes]
    log: BinaryIO
    folder: Path
    has_answered: bool = False

    @classmethod
    def start(cls, environment: Mapping[str, str]) -> _Worker:
        folder = Path(tempfile.mkdtemp(prefix="vtpu-libtpu-"))
        log = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115, closed with the worker
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "vtpu.compiler.worker", str(find_libtpu()), str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(environment) | {"TPU_LOG_DIR": str(folder)},
                start_new_session=True,  # a Ctrl-C in the terminal is not for it
            )
        except BaseException:
            log.close()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(process, log, folder)

    def forget_log(self) -> None:
        self.log.seek(0)
        self.log.truncate()

    def log_tail(self) -> str:
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - _LOG_TAIL_BYTES))
        return self.log.read().decode(errors="replace").strip()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream:
                with contextlib.suppress(OSError):  # what it did not read any more
                    stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _environment(base: Mapping[str, str]) -> dict[str, str]:
    environment = dict(base)
    environment.update(_WORKER_ENVIRONMENT)
    environment.pop("TPU_LIBRARY_PATH", None)
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment


@dataclass(slots=True)
class WorkerPool:
    """Up to `limit` workers with the environment `environment`, which libtpu reads once."""

    environment: Mapping[str, str]
    limit: int = 1
    timeout_s: float = 3600.0
    started: int = 0
    _idle: list[_Worker] = field(default_factory=list)
    _busy: int = 0
    _closings: int = 0
    _free: threading.Condition = field(default_factory=threading.Condition)
    _parents: list[_Worker] = field(default_factory=list)

    def ask(
        self,
        request: dict[str, Any],
        blobs: list[bytes],
        what: str,
        poll: Callable[[], None] = lambda: None,
    ) -> Message:
        """The answer of a worker. `what` names the request in messages; `poll` may raise.

        Raises:
            CompilerDied: the worker crashed, was killed or did not answer in `timeout_s`.
            CompilerMissing: no libtpu.
            CompilerStopped: the pool was closed meanwhile.
        """
        poll = self._until_closed(poll)
        worker = self._take(poll)
        answered = False
        try:
            worker.forget_log()
            answer = self._converse(worker, request, blobs, what, poll)
            answered = worker.has_answered = True
            return answer
        finally:
            self._give_back(worker, answered)

    def close(self) -> None:
        """Ends the workers; who waits for one gets `CompilerStopped`. Later requests start new ones."""
        with self._free:
            workers, self._idle = self._idle, []
            self._closings += 1
        for worker in workers:
            worker.end()

    def begin_in_child(self) -> None:
        """In a forked child: it must not speak through its parent's pipes, nor wait for its threads."""
        self._parents, self._idle, self._busy = self._idle, [], 0
        self._free = threading.Condition()

    def _until_closed(self, poll: Callable[[], None]) -> Callable[[], None]:
        closings = self._closings

        def check() -> None:
            poll()
            if self._closings != closings:
                raise CompilerStopped("The program ended while something was being compiled.")

        return check

    def _take(self, poll: Callable[[], None]) -> _Worker:
        with self._free:
            while not self._idle and self._busy >= self.limit:
                self._free.wait(_POLL_S)
                poll()
            self._busy += 1
            while self._idle:
                worker = self._idle.pop()
                if worker.process.poll() is None:
                    return worker
                worker.end()  # it was killed while it had nothing to do
            self.started += 1
        try:
            return _Worker.start(self.environment)
        except BaseException:
            with self._free:
                self._busy -= 1
                self._free.notify()
            raise

    def _give_back(self, worker: _Worker, usable: bool) -> None:
        try:
            if not usable:
                worker.end()
        finally:
            with self._free:
                self._busy -= 1
                if usable:
                    self._idle.append(worker)
                self._free.notify()

    def _converse(
        self,
        worker: _Worker,
        request: dict[str, Any],
        blobs: list[bytes],
        what: str,
        poll: Callable[[], None],
    ) -> Message:
        stdin, stdout = worker.process.stdin, worker.process.stdout
        assert stdin
        assert stdout
        try:
            stdin.write(encode_frame(request, blobs))
            stdin.flush()
            self._await(worker, stdout, what, poll)
            answer = read_frame(stdout.read)
        except (BrokenPipeError, EOFError):
            answer = None
        if answer is None:
            raise self._died(worker, what)
        return answer

    def _await(self, worker: _Worker, stdout: Any, what: str, poll: Callable[[], None]) -> None:
        limit_s = self.timeout_s + (0.0 if worker.has_answered else _STARTING_S)
        deadline = monotonic() + limit_s
        while not select.select([stdout], [], [], _POLL_S)[0]:
            poll()
            if monotonic() > deadline:
                raise CompilerDied(
                    f"The TPU compiler did not answer within {limit_s:g} s ({what}). It was "
                    "ended. Set VTPU_COMPILE_TIMEOUT (seconds) to wait longer."
                    + _quoted(worker.log_tail()),
                    worker.log_tail(),
                )

    @staticmethod
    def _died(worker: _Worker, what: str) -> CompilerDied:
        status = worker.process.wait()
        how = f"with exit code {status}"
        if status < 0:
            how = f"by signal {signal.Signals(-status).name}"
        hint = "This is a fault of libtpu for this program, not of the program's run."
        if status == -signal.SIGKILL:
            hint = "SIGKILL often means that the machine ran out of memory."
        log = worker.log_tail()
        return CompilerDied(
            f"The TPU compiler (libtpu) ended {how} ({what}). {hint} Try a smaller slice or "
            "other compiler options, or report the log below to the maintainers of libtpu."
            + _quoted(log),
            log,
        )


def _quoted(log: str) -> str:
    if not log:
        return " It printed nothing."
    lines = [line for line in log.splitlines() if not _INFORMATION.match(line)]
    return "\nThe end of its log:\n" + "\n".join("  | " + line for line in lines[-30:])
