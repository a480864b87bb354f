"""HLO text, as XLA dumps it, read by jaxlib's own parser.

The parser is in `jaxlib._hlo`, which is private (jaxlib 0.10.2 and 0.12.0.1 have it alike): nothing
else here knows it. It recurses, so text that nests absurdly deep would end the process; and it writes
about what it does not like to standard error.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Generator

from vtpu.program.modules import Module
from vtpu.reading.modules import read_module
from vtpu.reading.wire import WireError

_DEEPEST = 500
_BRACKET = re.compile(r"[()\[\]{}]")
_LONGEST_REASON = 300


class HloTextError(ValueError):
    """Text that is not an HLO module, with the parser's reason."""


def read_hlo_text(text: str) -> Module:
    """The module that `text` prints, with its schedule, aliases and stacks where they are printed.

    Raises:
        HloTextError: the parser does not take it, or this jaxlib has none.
    """
    try:
        return read_module(parse_hlo_text(text))
    except WireError as error:
        raise HloTextError(_reason(error)) from error


def parse_hlo_text(text: str) -> bytes:
    """The `HloModuleProto` of the module that `text` prints.

    Raises:
        HloTextError: as `read_hlo_text`.
    """
    if _depth(text) > _DEEPEST:
        raise HloTextError(f"brackets are nested more than {_DEEPEST} deep")
    try:
        from jaxlib._hlo import hlo_module_from_text
    except ImportError as error:
        raise HloTextError("this release of jaxlib has no parser of HLO text") from error
    try:
        with _quiet():
            return hlo_module_from_text(text).as_serialized_hlo_module_proto()
    except (RuntimeError, ValueError) as error:  # jaxlib raises XlaRuntimeError
        raise HloTextError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """What the parser says, in one line, without the status it is wrapped in."""
    words = " ".join(str(error).split())
    return words.removeprefix("INVALID_ARGUMENT: ")[:_LONGEST_REASON]


def _depth(text: str) -> int:
    """How deep brackets nest, at most."""
    depth = deepest = 0
    for match in _BRACKET.finditer(text):
        if match[0] in "([{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth = max(0, depth - 1)
    return deepest


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Without standard error, which the parser writes to from C++."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # the process has none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
