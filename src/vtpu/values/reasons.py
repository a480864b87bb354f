"""Why values are unknown, as numbers that fit into an event."""

from __future__ import annotations

import threading

#: The reasons of the native core, by their numbers from 1 on.
OF_THE_CORE: tuple[str, ...] = (
    "values are switched off",
    "memory that the program never wrote",
    "what it would be computed from was forgotten: arrays took more than the limit for values",
    "raw bytes in the layout of the device",
    "the interpreter is ending",
    "computing it was interrupted",
)
WHY_NEVER_WRITTEN, WHY_FORGOTTEN = 2, 3
_MOST = 0xFFFF


class Reasons:
    """Gives each text a number and keeps them in order."""

    def __init__(self) -> None:
        self._texts = list(OF_THE_CORE)
        self._numbers = {text: i + 1 for i, text in enumerate(OF_THE_CORE)}
        self._lock = threading.Lock()

    def number(self, text: str) -> int:
        """The number of a reason; that of the last one when there are too many."""
        with self._lock:
            if text not in self._numbers:
                if len(self._texts) == _MOST:
                    return _MOST
                self._texts.append(text)
                self._numbers[text] = len(self._texts)
            return self._numbers[text]

    def text(self, number: int) -> str:
        """The reason with this number."""
        return self._texts[number - 1]

    def after(self, number: int) -> list[str]:
        """The reasons with higher numbers, in order."""
        return self._texts[number:]
