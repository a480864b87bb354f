"""Edits of a file as values, which several changes can make together.

An edit names places in the text that it was made for. What two edits make of one place is well defined
or a conflict: words can be put at one place by several, calls can be wrapped twice, and keywords of one
call are collected; but no text is replaced twice.
"""

from __future__ import annotations

import ast
import difflib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from vtpu.errors import VtpuError


class Conflict(VtpuError):
    """Two edits are about the same text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Text from `begin` to `end` becomes `text`; with `begin` = `end` it is put in there."""

    file: str
    begin: int
    end: int
    text: str
    kind: Literal["replace"] = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrap:
    """Text from `begin` to `end` gets `before` in front and `after` behind."""

    file: str
    begin: int
    end: int
    before: str
    after: str
    kind: Literal["wrap"] = "wrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    """A keyword argument more for what stands from `begin` to `end`: a call, or a bare decorator.

    A bare decorator, `@jax.jit`, becomes `@functools.partial(jax.jit, …)`. Dictionaries that several
    edits give as one keyword are joined.
    """

    file: str
    begin: int
    end: int
    is_call: bool
    name: str
    value: str
    kind: Literal["keyword"] = "keyword"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """A statement among the file's imports, unless it is there: `import functools`."""

    file: str
    statement: str
    kind: Literal["import"] = "import"


@dataclass(frozen=True, slots=True, kw_only=True)
class Helper:
    """A function behind the file's imports; several edits may ask for the same one."""

    file: str
    name: str
    source: str
    kind: Literal["helper"] = "helper"


Edit = Replace | Wrap | Keyword | Import | Helper


def render(text: str, edits: Iterable[Edit]) -> str:
    """A file's text with edits of it applied.

    Raises:
        Conflict: two of them are about the same text.
    """
    unique = list(dict.fromkeys(edits))
    replaced = [e for e in unique if isinstance(e, Replace) and e.begin < e.end]
    put = [(e.begin, e.text) for e in unique if isinstance(e, Replace) and e.begin == e.end]
    keywords, needs_functools = _keywords(text, [e for e in unique if isinstance(e, Keyword)])
    replaced += [k for k in keywords if k.begin < k.end]
    put += [(k.begin, k.text) for k in keywords if k.begin == k.end]
    put += _wraps([e for e in unique if isinstance(e, Wrap)])
    imports = [e.statement for e in unique if isinstance(e, Import)]
    helpers = {e.name: e.source for e in unique if isinstance(e, Helper)}
    head = _head(text, [*imports, *(["import functools"] if needs_functools else [])], helpers)
    return _apply(text, replaced, [*head, *put])


def render_files(texts: dict[str, str], edits: Iterable[Edit]) -> dict[str, str]:
    """The new texts of the files that edits change, by name.

    Raises:
        Conflict: two edits are about the same text.
    """
    by_file: dict[str, list[Edit]] = defaultdict(list)
    for edit in edits:
        by_file[edit.file].append(edit)
    return {name: render(texts[name], of_file) for name, of_file in by_file.items()}


def diff_of(name: str, before: str, after: str) -> str:
    """What changes in a file, as `diff -u` has it."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, name
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _apply(text: str, replaced: Sequence[Replace], put: Sequence[tuple[int, str]]) -> str:
    ordered = sorted(replaced, key=lambda e: e.begin)
    for first, second in pairwise(ordered):
        if second.begin < first.end:
            raise Conflict(f"two changes replace the same text of {first.file}")
    inside = [at for at, _ in put for e in ordered if e.begin < at < e.end]
    if inside:
        raise Conflict(f"one change replaces what another one edits in {ordered[0].file}")
    # at one place: what is put in stands before what replaces the text behind it
    steps = [(at, 0, number, at, words) for number, (at, words) in enumerate(put)]
    steps += [(e.begin, 1, number, e.end, e.text) for number, e in enumerate(ordered)]
    parts: list[str] = []
    done = 0
    for begin, _, _, end, words in sorted(steps):
        parts += [text[done:begin], words]
        done = end
    return "".join([*parts, text[done:]])


def _wraps(wraps: Sequence[Wrap]) -> list[tuple[int, str]]:
    """What wraps put in: of those around one text the later is outside."""
    outermost_first = [*reversed(wraps)]
    return [*((w.begin, w.before) for w in outermost_first), *((w.end, w.after) for w in wraps)]


def _keywords(text: str, keywords: Sequence[Keyword]) -> tuple[list[Replace], bool]:
    """What keywords change, and whether it takes `functools`."""
    by_call: dict[tuple[str, int, int, bool], dict[str, str]] = defaultdict(dict)
    for k in keywords:
        names = by_call[k.file, k.begin, k.end, k.is_call]
        names[k.name] = _joined(names[k.name], k) if k.name in names else k.value
    edits: list[Replace] = []
    for (file, begin, end, is_call), names in by_call.items():
        given = ", ".join(f"{name}={value}" for name, value in names.items())
        if is_call:
            at, comma = _end_of_arguments(text, begin, end)
            edits.append(Replace(file=file, begin=at, end=at, text=comma + given))
        else:
            called = f"functools.partial({text[begin:end]}, {given})"
            edits.append(Replace(file=file, begin=begin, end=end, text=called))
    return edits, any(not k.is_call for k in keywords)


def _joined(value: str, keyword: Keyword) -> str:
    """One dictionary of two."""
    if value == keyword.value:
        return value
    try:
        both = [ast.literal_eval(v) for v in (value, keyword.value)]
    except ValueError:
        both = []
    if len(both) != 2 or not all(isinstance(b, dict) for b in both) or both[0].keys() & both[1]:
        raise Conflict(f"two changes give {keyword.name} different values")
    return repr({**both[0], **both[1]})


def _end_of_arguments(text: str, begin: int, end: int) -> tuple[int, str]:
    """Where a further argument of a call goes, and what parts it from the last one."""
    inside = text[begin : end - 1].rstrip()
    return begin + len(inside), "" if inside.endswith("(") else " " if inside.endswith(
        ","
    ) else ", "


def _head(text: str, imports: Sequence[str], helpers: dict[str, str]) -> list[tuple[int, str]]:
    """Imports and helper functions, behind the imports that are there."""
    tree = ast.parse(text)
    there = {ast.unparse(node) for node in tree.body} | {
        f"import {alias.name}"  # of `import jax, jax.numpy as jnp` each
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
        if not alias.asname
    }
    missing = [s for s in dict.fromkeys(imports) if s not in there]
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    functions = [source for name, source in helpers.items() if name not in names]
    if not missing and not functions:
        return []
    line = _last_line_of_head(tree)
    lines = [one + "\n" for one in text.split("\n")]
    at = min(sum(map(len, lines[:line])), len(text))
    new_imports = "".join(f"{s}\n" for s in missing)
    new_functions = "".join(f"\n\n{source.strip()}\n" for source in functions)
    if functions and not text[at:].startswith("\n\n"):
        new_functions += "\n"
    return [(at, new_imports + new_functions)]


def _last_line_of_head(tree: ast.Module) -> int:
    """The last line of the imports at the top; of the docstring where there are none."""
    last = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not isinstance(node, ast.Import | ast.ImportFrom) and not (is_docstring and not last):
            break
        last = node.end_lineno or node.lineno
    return last
