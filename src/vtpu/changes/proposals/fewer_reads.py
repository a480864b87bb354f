"""Reads of arrays in a loop made rarer, or put off until it ends."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.deferring import EVERY, CannotDefer, Deferring
from vtpu.changes.situation import Situation
from vtpu.changes.source.loops import Loop
from vtpu.changes.source.repeated import Repeated, repeated
from vtpu.recording.events import EventKind

KIND = "fewer-reads"


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """For each loop that reads one change, and why what it reads else has to stay."""
    reads = repeated(situation.run, EventKind.DEVICE_TO_HOST) if situation.target.is_script else []
    if not reads:
        yield NotApplicable(kind=KIND, reason="no loop reads arrays on the host again and again")
    for loop in dict.fromkeys(r.loop for r in reads):
        yield from _of_loop(situation, loop, [r for r in reads if r.loop is loop])


def _of_loop(
    situation: Situation, loop: Loop, reads: list[Repeated]
) -> Iterable[Change | NotApplicable]:
    largest = max(r.largest_bytes for r in reads)
    deferring = Deferring(file=reads[0].file, loop=loop, largest_bytes=largest)
    done: list[Repeated] = []
    for read in reads:
        attempt = deferring.copy()
        try:
            attempt.put_off(read.statement)
            edits = attempt.all_edits()
        except CannotDefer as why:
            yield NotApplicable(kind=KIND, reason=f"{read.line} reads in every turn: {why}")
            continue
        if edits != deferring.all_edits() or read.statement in deferring.done:
            deferring = attempt
            done.append(read)
        else:
            yield NotApplicable(kind=KIND, reason=f"{read.line} waits for some steps already")
    if done:
        yield _change(situation, deferring, done, tuple(deferring.all_edits()))


def _change(
    situation: Situation, deferring: Deferring, reads: list[Repeated], edits: tuple[Edit, ...]
) -> Change:
    places = ", ".join(dict.fromkeys(str(r.line) for r in reads))
    how = [f"every {EVERY} steps"] * bool(deferring.shown) + ["behind the loop"] * bool(
        deferring.last
    )
    cautions = [f"what the loop shows, it shows every {EVERY} steps only"] * bool(deferring.shown)
    cautions += ["sums are kept on the device in its precision"] * deferring.adds_up
    lines = {r.line for r in reads}
    costs = [f.cost.step for f in situation.found("reads-in-loop") if f.line in lines]
    return Change(
        kind=KIND,
        title=f"read {' or '.join(how)}, not in every turn: {places}",
        numerics=Numerics.TOLERANCE if deferring.adds_up else Numerics.IDENTICAL,
        edits=edits,
        group=f"{KIND} {deferring.file.name}:{deferring.loop.lineno}",
        caution="; ".join(cautions),
        expected_s=sum(c.value for c in costs if c) or None,
    )


PROPOSAL = Proposal(
    kind=KIND,
    what="What a loop reads of arrays only to show it, it reads every 50 steps; what it collects, "
    "it reads when it has ended.",
    applies="A script's loop prints or logs values, appends them to a list, sums them, or keeps the last "
    "one, and does not go on by them.",
    numerics="None: the same values, fewer of them shown. Sums are kept on the device and may differ by "
    "rounding.",
    propose=propose,
)
