"""What a loop sends to the device in every turn, sent once before it."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.edits import Edit
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.resent import CannotKeep, Kept, edits_of, resent
from vtpu.changes.situation import Situation
from vtpu.changes.source.loops import Loop
from vtpu.changes.source.repeated import Repeated, repeated
from vtpu.recording.events import EventKind, of_kind

KIND = "keep-on-device"
_RULES = ("host-array-sent-again", "implicit-host-to-device")


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """For each loop one change."""
    sent = repeated(situation.run, EventKind.HOST_TO_DEVICE) if situation.target.is_script else []
    if not sent:
        yield NotApplicable(kind=KIND, reason="no loop sends arrays to the devices")
    elif _uses_several_devices(situation):
        for one in sent:
            yield NotApplicable(kind=KIND, reason=_of_several_devices(one))
    else:
        taken: set[str] = set()
        for loop in dict.fromkeys(r.loop for r in sent):
            yield from _of_loop(situation, [r for r in sent if r.loop is loop], taken)


def _of_several_devices(sent: Repeated) -> str:
    """Why what goes to several devices stays where it is: how it is to be spread is not in the loop."""
    try:
        is_same = sent.is_direct and bool(resent(sent.file, sent.statement))
    except CannotKeep as why:
        return f"{sent.line} sends in every turn: {why}"
    if not is_same:
        return f"{sent.line} sends what is new in every turn"
    return (
        f"{sent.line} sends to several devices: put `jax.device_put(x, sharding)` before the loop"
    )


def _of_loop(
    situation: Situation, sent: list[Repeated], taken: set[str]
) -> Iterable[Change | NotApplicable]:
    kept: list[Kept] = []
    for one in sent:
        try:
            found = resent(one.file, one.statement) if one.is_direct else []
        except CannotKeep as why:
            yield NotApplicable(kind=KIND, reason=f"{one.line} sends in every turn: {why}")
            continue
        if not found:
            yield NotApplicable(kind=KIND, reason=f"{one.line} sends what is new in every turn")
        kept += found
    if kept:
        edits = edits_of(sent[0].file, kept, taken)
        yield _change(situation, sent[0].loop, sent, kept, tuple(edits))


def _change(
    situation: Situation,
    loop: Loop,
    sent: list[Repeated],
    kept: list[Kept],
    edits: tuple[Edit, ...],
) -> Change:
    lines = {r.line for r in sent}
    costs = [f.cost.step for f in situation.found(*_RULES) if f.line in lines]
    names = ", ".join(dict.fromkeys(k.what for k in kept))
    return Change(
        kind=KIND,
        title=f"send {names} once, before the loop in line {loop.lineno}",
        numerics=Numerics.IDENTICAL if all(k.is_exact for k in kept) else Numerics.TOLERANCE,
        edits=edits,
        group=f"{KIND} {sent[0].file.name}:{loop.lineno}",
        caution="what is sent stays in HBM as long as the loop runs",
        expected_s=sum(c.value for c in costs if c) or None,
    )


def _uses_several_devices(situation: Situation) -> bool:
    events = of_kind(situation.run.recording.events, EventKind.HOST_TO_DEVICE)
    return len(set(events["device"].tolist())) > 1


PROPOSAL = Proposal(
    kind=KIND,
    what="Arrays of the host and numbers that a loop gives to the device in every turn are put there once, "
    "before the loop.",
    applies="A script's loop sends an array of numpy's, or a number, that it never changes, from one line; the "
    "arrays are on one device.",
    numerics="None: the same bits; a number that bfloat16 does not hold exactly may be rounded twice.",
    propose=propose,
)
