"""A child process that holds libtpu and answers over its standard streams.

Run as `python -m vtpu.compiler.worker PATH_TO_LIBTPU FOLDER`. It ends when its input ends. Whatever
libtpu prints goes to the log that the parent gave it as standard error; the parent reads the end of
that when the process dies. libtpu's own log files are in FOLDER, which goes with the worker.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

from vtpu.compiler.dumps import dumping, temp_bytes
from vtpu.compiler.frames import Message, encode_frame, read_frame
from vtpu.compiler.libtpu import Libtpu, Refused
from vtpu.compiler.results import Refusal, pack, pack_refusal

_WATCH_INTERVAL_S = 1.0


def main() -> None:
    """Answers requests until the input ends."""
    requests, answers = _take_streams()
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the user's program
    libtpu: Libtpu | None = None
    while (message := read_frame(requests.read)) is not None:
        libtpu = libtpu or Libtpu(sys.argv[1])
        answers.write(encode_frame(*_answer(libtpu, message)))
        answers.flush()
    _leave()


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """The streams for messages; what libtpu prints on file descriptor 1 joins the log instead."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(os.dup(0), "rb"), answers


def _end_with_parent(parent: int) -> None:
    """Ends this process when its parent is gone, even in the middle of a compile, and tidies up."""
    while os.getppid() == parent:
        time.sleep(_WATCH_INTERVAL_S)
    _leave()


def _leave() -> None:
    shutil.rmtree(sys.argv[2], ignore_errors=True)
    os._exit(0)  # libtpu's own end is not worth waiting for


def _answer(libtpu: Libtpu, message: Message) -> Message:
    request, blobs = message
    try:
        return _perform(libtpu, request, blobs)
    except Refused as refusal:
        return {"refused": str(refusal), "code": refusal.code}, []


def _perform(libtpu: Libtpu, request: dict[str, Any], blobs: list[bytes]) -> Message:
    name, options = request["topology"], request["options"]
    if request["ask"] == "topology":
        facts = asdict(libtpu.describe_topology(name, options))
        serialized = facts.pop("serialized")
        return {"facts": facts}, [serialized]
    topology = libtpu.topology(name, options)
    if request["ask"] == "layout":
        dims = tuple(request["dims"])
        return {"layout": libtpu.default_layout(topology, request["element_type"], dims)}, []
    return {}, [_compile(libtpu, topology, blobs, request["format"])]


def _compile(libtpu: Libtpu, topology: int, blobs: list[bytes], code_format: str) -> bytes:
    """The packed result of compiling program and options `blobs`."""
    with dumping(blobs[1], Path(sys.argv[2], "dump")) as dump:
        try:
            compiled = libtpu.compile(topology, blobs[0], code_format, dump.options)
        except Refused as refusal:
            hlo, log = (zlib.compress(b, 1) for b in (dump.module(), dump.log()))
            return pack_refusal(
                Refusal(code=refusal.code, message=str(refusal), packed_hlo=hlo, packed_log=log)
            )
        assignment, log = dump.assignment(), dump.log()
    compiled = replace(
        compiled,
        packed_assignment=zlib.compress(assignment, 1),
        packed_log=zlib.compress(log, 1),
    )
    assigned = temp_bytes(assignment)
    # libtpu's own figure is too large before 0.0.52: it counts the fragmentation of the heap twice.
    # The assignment has index tables of tuples more, which the figure leaves out.
    if assigned is not None:
        compiled = replace(compiled, hbm_temp_bytes=min(assigned, compiled.hbm_temp_bytes))
    return pack(compiled)


if __name__ == "__main__":
    main()
