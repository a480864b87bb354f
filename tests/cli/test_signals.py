"""Signals to `vtpu run`: the script gets each once, as if it ran by itself."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from running import VTPU, Bench

SCRIPT = """
import pathlib, signal, sys, time
seen = []
def note(number, frame):
    seen.append(signal.Signals(number).name)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, note)
pathlib.Path("ready").touch()
while not seen: time.sleep(0.01)
time.sleep(0.5)
pathlib.Path("seen").write_text(" ".join(seen))
sys.exit(5)
"""
Send = Callable[["subprocess.Popen[str]"], None]
WAYS: dict[str, tuple[str, Send]] = {
    "SIGINT to the group": ("SIGINT", lambda run: os.killpg(run.pid, signal.SIGINT)),
    "SIGINT to the command": ("SIGINT", lambda run: run.send_signal(signal.SIGINT)),
    "SIGTERM to the group": ("SIGTERM", lambda run: os.killpg(run.pid, signal.SIGTERM)),
    "SIGTERM to the command": ("SIGTERM", lambda run: run.send_signal(signal.SIGTERM)),
}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.3)  # the command waits too


@pytest.mark.parametrize("way", WAYS)
def test_the_script_gets_once(bench: Bench, way: str) -> None:
    expected, send = WAYS[way]
    with subprocess.Popen(
        [VTPU, "run", bench.script(SCRIPT)],
        cwd=bench.folder,
        env=dict(bench.environment),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        wait_for(bench.folder / "ready")
        send(run)
        _, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (5, "")
    assert (bench.folder / "seen").read_text() == expected


def test_the_script_gets_ctrl_c_in_a_terminal_once(bench: Bench) -> None:
    bench.script(SCRIPT)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(bench.folder)
        os.execvpe(VTPU, [VTPU, "run", "prog.py"], dict(bench.environment))
    wait_for(bench.folder / "ready")
    os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    os.close(terminal)
    assert (bench.folder / "seen").read_text() == "SIGINT"
