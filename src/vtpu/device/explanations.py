"""Why JAX traces a function again, in its own words.

JAX explains tracing cache misses to its log when an option is on. The option is switched on, the
explanations are taken from the log and, unless the user asked for them, not shown.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from typing import Any

from vtpu.recording.recording import FIRST_CALL

_MISS = "TRACING CACHE MISS"
_PERSISTENT = re.compile(r"PERSISTENT COMPILATION CACHE MISS|(Not w|W)riting .*persistent")
_COMPARISON = "diff_tracing_cache_keys"
_CANNOT_SAY = (5, 0, "JAX cannot say what differs")  # the least telling of its answers
_UNAVAILABLE = "cache miss explanation unavailable"
_LONGEST_VALUE = 200
_ON_FOR_VTPU = 1  # true, but not the True of somebody who wants to read them
_LOGGERS = (
    "jax._src.interpreters.partial_eval",
    "jax._src.pjit",
    "jax._src.compiler",
    "jax._src.compilation_cache",
)
_FOR = re.compile(r"^  for (?P<name>.+?)(?: defined at .*)?$", re.MULTILINE)
_NEVER_SEEN = re.compile(r"never seen function:\n    (?P<name>.+?) id=\d+", re.MULTILINE)


class Explanations(logging.Filter):
    """The last explanation for each function, until a compile takes it."""

    def __init__(self) -> None:
        super().__init__()
        self._by_function: dict[str, str] = {}
        self._lock = threading.Lock()

    def install(self) -> None:
        """Switches JAX's explanations on and listens."""
        option = _option()
        if not option.value:
            option.set_global(_ON_FOR_VTPU)
        _guard_comparison()
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keeps an explanation; lets through to the user's handlers what they would see without."""
        text = record.getMessage()
        is_asked_for = _option().value is True
        if text.startswith(_MISS):
            self._keep(text)
            return is_asked_for
        if not is_asked_for and record.levelno == logging.WARNING and _PERSISTENT.match(text):
            record.levelno, record.levelname = logging.DEBUG, "DEBUG"
            return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)
        return True

    def _keep(self, text: str) -> None:
        found = _FOR.search(text) or _NEVER_SEEN.search(text)
        if found:
            with self._lock:
                self._by_function[_program_name(found["name"])] = _reason(text)

    def take(self, program: str) -> str | None:
        """The explanation for the function that became `program` (`jit_step`), once."""
        with self._lock:
            return self._by_function.pop(program, None)


def _guard_comparison() -> None:
    """JAX's comparison of two calls may not end a program that did not ask for it.

    In jax 0.12 it raises where the arguments' trees are of different registries, and has no words for
    static arguments.
    """
    from jax._src.interpreters import partial_eval

    compare = getattr(partial_eval, _COMPARISON, None)
    if compare is None or hasattr(compare, "__wrapped__"):
        return

    @functools.wraps(compare)
    def compare_or_not(*keys: Any) -> tuple[int, int, str]:
        try:
            answer = compare(*keys)
            return _static_arguments(*keys) or answer if _UNAVAILABLE in answer else answer
        except Exception:  # whatever it is, the user's program goes on
            if _option().value is True:
                raise
            return _CANNOT_SAY

    setattr(partial_eval, _COMPARISON, compare_or_not)


def _static_arguments(new_key: Any, old_key: Any) -> tuple[int, int, str] | None:
    """How the static arguments of two calls differ, as JAX would say it; None: they do not."""
    found: list[str] = []
    (_, (new, *_), _), (_, (old, *_), _) = new_key, old_key
    parts_before = dict(_parts(old))
    for path, now in _parts(new):
        before = parts_before.get(path, now)
        if type(now).__name__ == type(before).__name__ == "FTStatic" and now != before:
            values = (repr(part.val)[:_LONGEST_VALUE] for part in (now, before))
            found.append("  * at input path {}, now {} and before {}".format(path, *values))
    return (4, len(found), "different static arguments:\n" + "\n".join(found)) if found else None


def _parts(call: Any) -> list[tuple[str, Any]]:
    """The arguments of a call, as jax 0.12 keeps them, by their path."""
    positional, keywords = call.elts
    by_keyword = zip(keywords.keys, keywords._vals, strict=True)  # noqa: SLF001, JAX's own
    return [(f"[0][{i}]", part) for i, part in enumerate(positional.elts)] + [
        (f"[1][{key!r}]", part) for key, part in by_keyword
    ]


def _option() -> Any:
    from jax._src import config

    return config.explain_cache_misses


def _program_name(function: str) -> str:
    """The name that JAX gives the module of a function: `jit__lambda` of `<lambda>`."""
    simple = function.rsplit(".", 1)[-1]
    return "jit_" + re.sub(r"[^\w.)( -]", "", simple.replace("<", "_").replace(">", ""))


def _reason(text: str) -> str:
    """The part of an explanation that says what differs."""
    lines = [line for line in text.split("\n")[1:] if line.strip()]
    for i, line in enumerate(lines):
        if "closest previous key" in line:
            return "\n".join(part.strip() for part in lines[i + 1 :])
    if any("same line" in line for line in lines):
        return "another function defined on the same line: the function is defined again each time"
    if any("never seen function" in line for line in lines):
        return FIRST_CALL
    return "\n".join(part.strip() for part in lines)
