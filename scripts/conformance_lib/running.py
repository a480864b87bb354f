"""Runs one of JAX's test files in pytest processes: a new one behind every crash.

A process that dies takes down the test it was in, and nothing else: the tests behind it run in the
next process. How every process ended is looked at, so a crash at exit is seen too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance_lib.outcomes import CRASHED, PASSED, SKIPPED, TIMED_OUT, Outcome

_LIBRARY = Path(__file__).parents[1]
_MOST_CRASHES = 40
_PYTEST_ENDS = (0, 1, 5)  # all passed, some failed, nothing to run
_ENVIRONMENT = {
    "JAX_SKIP_SLOW_TESTS": "1",
    "JAX_NUM_GENERATED_CASES": "2",
    "JAX_FORCE_TPU_INIT": "1",  # a Cloud TPU machine: tests skip what libtpu is known not to do
    "VTPU_REPORT": "off",
}
_PLATFORMS = {
    "vtpu": {"JAX_PLATFORMS": "vtpu", "VTPU_ON": "v5e-8", "VTPU_VALUES": "cpu"},
    "vtpu-zeros": {"JAX_PLATFORMS": "vtpu", "VTPU_ON": "v5e-8", "VTPU_VALUES": "zeros"},
    "cpu": {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How files are run. `sample`: tests per file, evenly spread; 0 for all."""

    checkout: Path
    platform: str = "vtpu"
    sample: int = 0
    test_limit_s: float = 180.0
    file_limit_s: float = 5400.0
    memory_bytes: int = 12 << 30
    only: str = ""


@dataclass(slots=True)
class _Run:
    """One file under way."""

    plan: Plan
    file: str
    folder: Path
    outcomes: dict[str, Outcome]
    deadline: float

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    def note(self, name: str, outcome: str, seconds: float = 0.0, message: str = "") -> None:
        """Keeps the worst that is known of a test: teardown may fail behind a test that passed."""
        known = self.outcomes.get(name)
        if known and (outcome in (PASSED, SKIPPED) or known.outcome in (CRASHED, TIMED_OUT)):
            outcome, message = known.outcome, known.message
        self.outcomes[name] = Outcome(
            file=self.file, name=name, outcome=outcome, seconds=seconds, message=message
        )


def run_file(plan: Plan, file: str) -> list[Outcome]:
    """The outcomes of all tests of `file`, which is relative to the checkout's folder `tests`."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        run = _Run(plan, file, Path(folder), {}, time.monotonic() + plan.file_limit_s)
        for _ in range(_MOST_CRASHES):
            before = len(run.outcomes)
            code = _run_process(run)
            interrupted = _read_log(run, code)
            if interrupted and len(run.outcomes) > before and time.monotonic() < run.deadline:
                continue
            if not interrupted and code not in _PYTEST_ENDS and "[import]" not in run.outcomes:
                run.note("[exit]", CRASHED, message=_how(code) + "\n" + _tail(run.output))
            break
        if time.monotonic() >= run.deadline:
            run.note("[file]", TIMED_OUT, message=f"more than {plan.file_limit_s:g} s")
        return list(run.outcomes.values())


def _run_process(run: _Run) -> int:
    """Runs what has not run yet; how the process ended."""
    done = run.folder / "done"
    done.write_text("\n".join(run.outcomes))
    run.log.write_bytes(b"")
    with run.output.open("wb") as output:
        process = subprocess.Popen(
            _command(run.plan, run.file),
            cwd=run.folder,
            env=_environment(run, done),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            return process.wait(timeout=max(1.0, run.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        except BaseException:
            process.kill()
            raise


def _command(plan: Plan, file: str) -> list[str]:
    options = ["-q", "-p", "conformance_lib.inside", "-p", "no:cacheprovider", "--noconftest"]
    options += ["-W", "ignore", "--import-mode=prepend", "-o", "addopts=", "-c", os.devnull]
    if plan.only:
        options += ["-k", plan.only]
    tests = plan.checkout / "tests"
    return [sys.executable, "-m", "pytest", *options, f"--rootdir={tests}", str(tests / file)]


def _environment(run: _Run, done: Path) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "VTPU_"))}
    environment |= _cache_settings(os.environ) | _ENVIRONMENT | _PLATFORMS[run.plan.platform]
    paths = [str(_LIBRARY), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    environment["CONFORMANCE_LOG"] = str(run.log)
    environment["CONFORMANCE_DONE"] = str(done)
    environment["CONFORMANCE_SAMPLE"] = str(run.plan.sample)
    environment["CONFORMANCE_LIMIT_S"] = str(run.plan.test_limit_s)
    environment["CONFORMANCE_MEMORY_BYTES"] = str(run.plan.memory_bytes)
    environment["CONFORMANCE_CHECKOUT"] = str(run.plan.checkout)
    return environment


def _cache_settings(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k.startswith("VTPU_CACHE")}


def _read_log(run: _Run, code: int) -> bool:
    """Takes over what the process wrote; whether it died within a test."""
    running: str | None = None
    for raw in run.log.read_text(errors="replace").splitlines():
        line = json.loads(raw)
        if line["outcome"] == "began":
            running = line["test"]
        elif line["outcome"] == "ended":
            run.note(line["test"], PASSED, line["seconds"])
            running = None
        else:
            run.note(line["test"], line["outcome"], message=line["message"])
            if line["outcome"] == TIMED_OUT:
                return True
    if running is None:
        return False
    outcome = TIMED_OUT if time.monotonic() >= run.deadline else CRASHED
    run.note(running, outcome, message=_how(code) + "\n" + _tail(run.output))
    return True


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-4000:]
