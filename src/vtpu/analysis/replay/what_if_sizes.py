"""What if arrays had other sizes: many placed as one, or varying ones padded to a few."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from vtpu.analysis.replay.requests import Attempt, RequestKind, Requests
from vtpu.analysis.replay.what_if_context import Change, Context, rows_of_frees
from vtpu.analysis.source_lines import SourceLine

_MOST_LINES = 3
_FEWEST_BATCHED = 8
_FEWEST_SIZES = 3


def batching(run: Context) -> Iterator[Change]:
    """For each of the lines with the most bytes: arrays that are alive together are one array."""
    frees = rows_of_frees(run.requests)
    found = 0
    for (line, _), rows in run.rows_by_maker.items():
        groups = [g for g in _together(run.requests, rows, frees) if len(g) >= _FEWEST_BATCHED]
        if groups and found < _MOST_LINES:
            found += 1
            count = sum(map(len, groups))
            what = f"place {count:,} arrays of this line as {len(groups):,}"
            yield Change(
                kind="batching",
                what=what,
                requests=_batched(run.requests, groups, frees),
                line=line,
            )


def _together(requests: Requests, rows: list[int], frees: dict[int, int]) -> Iterator[list[int]]:
    """Allocations in groups none of which loses a member before its last one is made."""
    group: list[int] = []
    ends = len(requests)
    for row in rows:
        if row > ends:
            yield group
            group, ends = [], len(requests)
        group.append(row)
        ends = min(ends, frees.get(int(requests.block[row]), len(requests)))
    yield group


def _batched(requests: Requests, groups: list[list[int]], frees: dict[int, int]) -> Requests:
    """The first allocation of each group is for all of it, and is freed with the last member."""
    size, block = requests.size.copy(), requests.block.copy()
    gone = np.zeros(len(requests), bool)
    for group in groups:
        size[group[0]] = requests.size[group].sum()
        gone[group[1:]] = True
        ends = [frees.get(int(requests.block[row])) for row in group]
        known = [end for end in ends if end is not None]
        gone[known] = True
        if len(known) == len(ends):
            gone[max(known)] = False
            block[max(known)] = block[group[0]]
    return replace(requests, size=size, block=block).take(~gone)


# ---- bucketing ---------------------------------------------------------------------------------

_Round = Callable[[int, int], int]
_Key = tuple[SourceLine, str, str]


def _to_largest(size: int, largest: int) -> int:  # noqa: ARG001 - one form for both
    return largest


def _to_power_of_two(size: int, largest: int) -> int:
    return min(1 << (size - 1).bit_length(), largest)


_ROUNDINGS: tuple[tuple[str, _Round], ...] = (
    ("the largest", _to_largest),
    ("powers of two", _to_power_of_two),
)


def bucketing(run: Context) -> Iterator[Change]:
    """For each of the lines with the most bytes: sizes that vary are rounded up to a few."""
    keys = _keys_of_rows(run)
    varying = _varying(run, keys)
    lines = dict.fromkeys(line for line, _, _ in varying)
    for line in list(lines)[:_MOST_LINES]:
        largest = {key: size for key, size in varying.items() if key[0] == line}
        for name, rounding in _ROUNDINGS:
            what = f"pad the varying sizes of this line to {name}"
            requests = _bucketed(run, keys, largest, rounding)
            yield Change(kind="bucketing", what=what, requests=requests, line=line)


def _keys_of_rows(run: Context) -> list[_Key | None]:
    """Which sizes belong together: an output of a program at a line, its temporaries, what the host
    places there of one element type and rank.
    """
    keys: list[_Key | None] = []
    position = 0
    events = run.recording.events
    for row, (kind, (line, name)) in enumerate(
        zip(run.requests.kind.tolist(), run.makers, strict=True)
    ):
        is_output = kind == RequestKind.ALLOCATE and bool(name)
        position = position + 1 if is_output else 0
        if is_output:
            keys.append((line, name, str(position - 1)))
        elif kind == RequestKind.ALLOCATE:
            shape = run.recording.shape(int(events["detail"][run.requests.event[row]]))
            like = f"{shape.element_type}/{len(shape.dims)}" if shape else ""
            keys.append((line, name, like))
        else:
            keys.append((line, name, "temporaries") if kind == RequestKind.RUN else None)
    return keys


def _varying(run: Context, keys: list[_Key | None]) -> dict[_Key, int]:
    """The largest size of each key that has several, those with the most bytes first."""
    sizes: dict[_Key, list[int]] = defaultdict(list)
    for key, size in zip(keys, run.requests.size.tolist(), strict=True):
        if key and size:
            sizes[key].append(size)
    for key, size in _sizes_of_attempt(run):
        sizes[key].append(size)
    several = {k: s for k, s in sizes.items() if len(set(s)) >= _FEWEST_SIZES}
    return {k: max(s) for k, s in sorted(several.items(), key=lambda item: -sum(item[1]))}


def _sizes_of_attempt(run: Context) -> Iterator[tuple[_Key, int]]:
    attempt = run.requests.attempts.get(run.event)
    if attempt is None or not run.makers or not run.makers[-1][1]:
        return
    line, name = run.makers[-1]
    for position, size in enumerate(attempt.outputs):
        yield (line, name, str(position)), size
    yield (line, name, "temporaries"), attempt.temporaries


def _bucketed(
    run: Context, keys: list[_Key | None], largest: dict[_Key, int], rounding: _Round
) -> Requests:
    def rounded(key: _Key | None, size: int) -> int:
        return rounding(size, largest[key]) if key in largest and size else size

    pairs = zip(keys, run.requests.size.tolist(), strict=True)
    size = np.array([rounded(key, size) for key, size in pairs], np.int64)
    attempts = dict(run.requests.attempts)
    if new := [rounded(key, size) for key, size in _sizes_of_attempt(run)]:
        attempts[run.event] = Attempt(tuple(new[:-1]), new[-1])
    return replace(run.requests, size=size, attempts=attempts)
