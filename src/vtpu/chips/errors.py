"""What the parsers of this room raise for people: a name that means no TPU.

`UnknownSlice` is a `UsageError`, so a surface that prints those prints this one too.
"""

from __future__ import annotations

from vtpu.errors import UsageError

MAX_SHOWN_CHARACTERS = 80
"""How much of the text that was not understood a message repeats."""


class UnknownSlice(UsageError):
    """A text that names no TPU slice.

    `text` is what was given, `reason` a clause that says what is wrong with it, `nearest` the
    legal names closest to it (possibly none), `slug` the stable name of this error.
    """

    slug = "unknown-slice"

    def __init__(self, text: str, reason: str, nearest: tuple[str, ...]) -> None:
        super().__init__(text, reason, nearest)
        self.text = text
        self.reason = reason
        self.nearest = nearest

    def __str__(self) -> str:
        shown = self.text
        if len(shown) > MAX_SHOWN_CHARACTERS:
            shown = shown[:MAX_SHOWN_CHARACTERS] + "..."
        closest = f" Nearest: {', '.join(self.nearest)}." if self.nearest else ""
        return (
            f"{shown!r} is not a TPU slice: {self.reason}.{closest}"
            f" `vtpu slices` lists every name. [{self.slug}]"
        )
