"""Which signals went to our whole process group, and so to the child too.

A Ctrl-C in the terminal, `timeout` and the kill of a group reach every process of it; `kill PID`
reaches one. No signal says which it was. So a second process of the group does nothing but get them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Set as AbstractSet
from typing import NoReturn


class Witness:
    """A process of this group that gets the signals `watched`, which are blocked in both.

    It ends with this process at the latest.
    """

    def __init__(self, watched: AbstractSet[signal.Signals]) -> None:
        theirs, self._questions = os.pipe()
        self._answers, ours = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._questions)
            _testify(watched, theirs, ours)
        os.close(theirs)
        os.close(ours)

    def saw(self) -> frozenset[int]:
        """The signals that it got since it was last asked; none when it is gone."""
        try:
            os.write(self._questions, b"?")
        except BrokenPipeError:
            return frozenset()
        return frozenset(os.read(self._answers, 64)[1:])

    def end(self) -> None:
        """Lets the process go."""
        os.close(self._questions)
        os.close(self._answers)
        os.waitpid(self._pid, 0)


def _testify(watched: AbstractSet[signal.Signals], questions: int, answers: int) -> NoReturn:
    try:
        while os.read(questions, 1):
            seen = [0]
            while got := signal.sigtimedwait(watched, 0):
                seen.append(got.si_signo)
            os.write(answers, bytes(seen))
    finally:
        os._exit(0)
