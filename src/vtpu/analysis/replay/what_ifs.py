"""What would have helped: each change of the run is replayed, so every answer is a result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from vtpu.analysis.replay.replay import MakeAllocator, replay
from vtpu.analysis.replay.what_if_context import Change, Context
from vtpu.analysis.replay.what_if_donated import donations
from vtpu.analysis.replay.what_if_sizes import batching, bucketing
from vtpu.analysis.replay.what_if_times import freeing_earlier, freeing_unused, reordering
from vtpu.analysis.source_lines import SourceLine

MOST_UNASKED = 200_000
"""Requests of a run whose what-ifs are tried where nobody asked for a replay: seconds of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """A change of the run and the result of its replay up to the request that is looked at.

    `kind`: donation, batching, bucketing, reordering, freeing earlier or unused arrays. `avoids_failure` is null where
    nothing failed. Memory then, after all requests up to that one, bytes; null where the changed run
    fails before it.
    """

    kind: str
    what: str
    line: SourceLine | None
    avoids_failure: bool | None
    peak_bytes: int
    largest_free_bytes: int | None
    reservable_bytes: int | None


def find_what_ifs(run: Context, allocator: MakeAllocator, *, failed: bool) -> tuple[WhatIf, ...]:
    """Every change that applies, replayed on `allocator`; those that avoid the failure first."""
    found = [_try(change, run, allocator, failed=failed) for change in changes(run)]
    return tuple(sorted(found, key=lambda w: (not w.avoids_failure, w.peak_bytes)))


def changes(run: Context) -> Iterator[Change]:
    """The changes that apply to a run."""
    kinds = (donations, batching, bucketing, reordering, freeing_earlier, freeing_unused)
    return chain.from_iterable(kind(run) for kind in kinds)


def _try(change: Change, run: Context, allocator: MakeAllocator, *, failed: bool) -> WhatIf:
    result = replay(change.requests, allocator())
    reaches_it = len(result.in_use) > 0 and not result.is_cut
    still_fails = result.is_cut or any(f.event == run.event for f in result.failures)
    return WhatIf(
        kind=change.kind,
        what=change.what,
        line=change.line,
        avoids_failure=not still_fails if failed else None,
        peak_bytes=result.peak_bytes,
        largest_free_bytes=int(result.largest_free[-1]) if reaches_it else None,
        reservable_bytes=int(result.reservable[-1]) if reaches_it else None,
    )
