"""A kind of change, and all kinds there are."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from vtpu.changes import proposals
from vtpu.changes.change import Change, NotApplicable
from vtpu.changes.situation import Situation


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A kind of change. `what` says what it does, `numerics` what becomes of the results, `applies` when it
    can be made; its text is part of the documentation. `propose` gives every variant that is worth trying
    for a program, or why there is none.
    """

    kind: str
    what: str
    applies: str
    numerics: str
    propose: Callable[[Situation], Iterable[Change | NotApplicable]]


@cache
def all_proposals() -> tuple[Proposal, ...]:
    """All kinds by name: every module below `proposals` has one, called `PROPOSAL`."""
    modules = pkgutil.iter_modules(proposals.__path__, f"{proposals.__name__}.")
    found = [importlib.import_module(module.name).PROPOSAL for module in modules]
    return tuple(sorted(found, key=lambda p: p.kind))


def propose_all(situation: Situation) -> tuple[list[Change], list[NotApplicable]]:
    """Every change that is worth trying, and the kinds that cannot be made, with the reasons."""
    found = [one for proposal in all_proposals() for one in proposal.propose(situation)]
    changes = [one for one in found if isinstance(one, Change)]
    return changes, [one for one in found if isinstance(one, NotApplicable)]
