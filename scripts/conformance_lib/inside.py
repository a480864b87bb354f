"""The pytest plugin of a conformance run: loaded instead of JAX's conftest, in every process.

It writes one line of JSON for each test that begins and each that ends, so that a process that dies
leaves behind which test it was in. Told by environment variables:

* CONFORMANCE_LOG: the file for those lines;
* CONFORMANCE_DONE: a file with the names of tests that need not run again, one a line;
* CONFORMANCE_SAMPLE: how many tests of the file to run, evenly spread; 0 for all;
* CONFORMANCE_LIMIT_S: how long one test may take;
* CONFORMANCE_MEMORY_BYTES: how much memory the process may have, so that a test that fails for want
  of it does not take the machine with it;
* CONFORMANCE_CHECKOUT: the checkout, for test utilities that JAX's wheel does not hold.
"""

from __future__ import annotations

import faulthandler
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from vtpu.values.reasons import OF_THE_CORE

_MISSING_IN_WHEEL = ("jax._src.hypothesis_test_util", "jax._src.pallas.pallas_test_util")


class _TestUtilities(importlib.abc.MetaPathFinder):
    """Finds in the checkout the few modules that only tests use and the wheel leaves out."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,  # noqa: ARG002, the protocol's
        target: ModuleType | None = None,  # noqa: ARG002, the protocol's
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _MISSING_IN_WHEEL:
            return None
        file = Path(os.environ["CONFORMANCE_CHECKOUT"], *name.split(".")).with_suffix(".py")
        return importlib.util.spec_from_file_location(name, file) if file.exists() else None


_BYTES = int(os.environ["CONFORMANCE_MEMORY_BYTES"])
resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
sys.meta_path.append(_TestUtilities())  # last: what is installed comes first


def _log(**line: object) -> None:
    with Path(os.environ["CONFORMANCE_LOG"]).open("ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")


def _name(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps an even sample, without what has run."""
    sample = int(os.environ["CONFORMANCE_SAMPLE"])
    if 0 < sample < len(items):
        items[:] = [items[i * len(items) // sample] for i in range(sample)]
    done = set(Path(os.environ["CONFORMANCE_DONE"]).read_text().split("\n"))
    items[:] = [item for item in items if _name(item) not in done]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Makes the devices before the first test, whose changes of JAX's settings are looked at."""
    if session.items:
        import jax  # noqa: PLC0415, not before the tests have set their options

        jax.devices()


def _end_process(name: str) -> None:
    _log(test=name, outcome="timed out", message="the test took too long")
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Notes the beginning; ends the process when the test takes too long."""
    name = _name(item)
    _log(test=name, outcome="began")
    timer = threading.Timer(float(os.environ["CONFORMANCE_LIMIT_S"]), _end_process, [name])
    timer.daemon = True
    timer.start()
    began = time.monotonic()
    yield
    timer.cancel()
    _log(test=name, outcome="ended", seconds=round(time.monotonic() - began, 3))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes what a phase of a test came to, where that says something."""
    if report.failed or report.skipped or report.when == "call":
        message = _message(report) + _why_unknown() if report.failed else ""
        name = report.nodeid.partition("::")[2]
        _log(test=name, outcome=report.outcome, message=message)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Notes a file that cannot be imported."""
    if report.failed:
        _log(test="[import]", outcome="failed", message=_message(report))


_told = 0


def _why_unknown() -> str:
    """Why values were unknown that the test may have looked at: what vtpu noted since the last time."""
    global _told  # noqa: PLW0603, of one process
    attach = sys.modules.get("vtpu.device.attach")
    session = attach.current_session() if attach else None
    if session is None:
        return ""
    whys = session.recorder.reasons.after(_told)
    _told += len(whys)
    return "".join(f"\nvtpu: {why}" for why in whys if why not in OF_THE_CORE)


def _message(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message + "\n" + report.longreprtext[-3000:] if crash else report.longreprtext
    return text[:6000]
