"""Which line of a program was which line in another version of it.

Line numbers move when a file is edited. What happens at a line (operations by JAX's path, transfers by
direction) is mostly what happened there before, and lines of a function keep their order. So the lines
of a function are aligned as a text is by `diff`: in order, those together at which the same happens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from vtpu.analysis.source_lines import SourceLine

Sightings = Mapping[SourceLine, Counter[str]]
"""What happens at each line, how often."""

_MOST_COMPARISONS = (
    1_000_000  # about a second; of a longer function only equal numbers are compared
)


@dataclass(frozen=True, slots=True)
class LineKey:
    """Names a line of both versions: equal for two lines that are the same one."""

    number: int
    file: str
    function: str


@dataclass(frozen=True, slots=True)
class LineMatch:
    """The key of each line of either version."""

    before: Mapping[SourceLine, LineKey]
    after: Mapping[SourceLine, LineKey]


def match_lines(before: Sightings, after: Sightings) -> LineMatch:
    """Aligns the lines of two versions, first within functions of one name, then within files.

    Lines whose number is not known are left out.
    """
    left = sorted(line for line in before if line.line)
    right = sorted(line for line in after if line.line)
    files = _match_files({line.file for line in left}, {line.file for line in right})
    keys = {line: LineKey(n, line.file, line.function) for n, line in enumerate(left)}
    fresh = {
        line: LineKey(len(left) + n, files.get(line.file, line.file), line.function)
        for n, line in enumerate(right)
    }
    pairs: dict[SourceLine, SourceLine] = {}  # after to before
    for scope in (_function, _file):
        matched = set(pairs.values())
        one = _by((_Line(n, before[n]) for n in left if n not in matched), scope, keys)
        other = _by((_Line(n, after[n]) for n in right if n not in pairs), scope, fresh)
        for place in one.keys() & other.keys():
            pairs.update({b.line: a.line for a, b in _align(one[place], other[place])})
    return LineMatch(
        keys, {line: keys[pairs[line]] if line in pairs else key for line, key in fresh.items()}
    )


def _function(key: LineKey) -> tuple[str, str]:
    return key.file, key.function


def _file(key: LineKey) -> str:
    return key.file


def _by(
    lines: Iterable[_Line], scope: Callable[[LineKey], object], keys: Mapping[SourceLine, LineKey]
) -> dict[object, list[_Line]]:
    found: dict[object, list[_Line]] = defaultdict(list)
    for line in lines:
        found[scope(keys[line.line])].append(line)
    return found


def _match_files(before: set[str], after: set[str]) -> dict[str, str]:
    """After's files by before's: of the same name, so named in another folder, the only one left.

    A file that is the only one without a counterpart was renamed, if what it does is the same.
    """
    found = {file: file for file in before & after}
    _match_names(found, before, after, lambda file: PurePath(file).name)
    _match_names(found, before, after, lambda _: "")
    return found


def _match_names(
    found: dict[str, str], before: set[str], after: set[str], name: Callable[[str], str]
) -> None:
    """Adds to `found` the files that alone have a name among those of their side that are left."""
    left, right = before - set(found.values()), after - set(found)
    named_left, named_right = Counter(map(name, left)), Counter(map(name, right))
    by_name = {name(file): file for file in left}
    for file in right:
        if named_left[name(file)] == named_right[name(file)] == 1:
            found[file] = by_name[name(file)]


# ---- alignment ---------------------------------------------------------------------------------


class _Line:
    """A line with what happens there: whole paths, and the last part of each."""

    __slots__ = ("last_parts", "line", "paths")

    def __init__(self, line: SourceLine, paths: Counter[str]) -> None:
        self.line = line
        self.paths = paths
        self.last_parts: Counter[str] = Counter()
        for path, count in paths.items():
            self.last_parts[path.rsplit("/", 1)[-1]] += count

    def likeness(self, other: _Line) -> int:
        """How much they have in common: paths first, then last parts, then their number."""
        paths = (self.paths & other.paths).total()
        last_parts = (self.last_parts & other.last_parts).total()
        return (paths << 40) + (last_parts << 10) + (self.line.line == other.line.line)


def _align(before: list[_Line], after: list[_Line]) -> list[tuple[_Line, _Line]]:
    """Pairs in order that have most in common together; a pair has something in common."""
    start = 0
    for one, other in zip(before, after, strict=False):
        if one.line.line != other.line.line or one.paths != other.paths:
            break
        start += 1
    same = list(zip(before[:start], after[:start], strict=True))
    before, after = before[start:], after[start:]
    if len(before) * len(after) > _MOST_COMPARISONS:
        by_number = {other.line.line: other for other in after}
        return same + [(one, by_number[n]) for one in before if (n := one.line.line) in by_number]
    return same + _best_in_order(before, after)


def _best_in_order(before: list[_Line], after: list[_Line]) -> list[tuple[_Line, _Line]]:
    likeness = [[one.likeness(other) for other in after] for one in before]
    best = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]  # of what begins at i and j
    for i in range(len(before) - 1, -1, -1):
        for j in range(len(after) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + likeness[i][j])
    pairs: list[tuple[_Line, _Line]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        if likeness[i][j] and best[i][j] == best[i + 1][j + 1] + likeness[i][j]:
            pairs.append((before[i], after[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs
