"""XLA's flags as compile options."""

from __future__ import annotations

from collections.abc import Iterable


def parse_flags(flags: Iterable[str]) -> dict[str, bool | int | str]:
    """`--name=value` (several in a text, too) as compile options.

    Raises:
        ValueError: a flag without a name; says which.
    """
    options: dict[str, bool | int | str] = {}
    for flag in " ".join(flags).split():
        name, _, value = flag.removeprefix("--").partition("=")
        if not name or name.startswith("-"):
            raise ValueError(f"{flag!r} is no flag; write --name=value")
        options[name] = _value(value)
    return options


def _value(text: str) -> bool | int | str:
    if text in ("", "true", "True", "false", "False"):  # a bare --name switches on
        return text.lower() != "false"
    return int(text) if text.lstrip("-").isdigit() else text
