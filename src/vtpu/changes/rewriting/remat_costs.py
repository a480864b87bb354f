"""What a checkpoint may save and cost, as far as the program without it tells. It only orders candidates."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.changes.rewriting.policies import NAMED, NOTHING, WEIGHT_DOTS, Policy
from vtpu.changes.source.repeats import Repeat
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.op_names import Phase
from vtpu.program.shapes import ArrayShape

_PRODUCTS = ("dot_general", "conv_general_dilated")
_RANK_OF_MATRICES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RematCosts:
    """Seconds of the forward pass: all of it, and its products. None: the program has no time."""

    forward_s: float | None
    product_s: float | None

    def step_s(self, policy: Policy) -> float | None:
        """What of a step a checkpoint may save: less than nothing, as it computes again."""
        if self.forward_s is None or self.product_s is None:
            return None
        return -self.forward_s if not policy.name else self.product_s - self.forward_s

    def saved_bytes(self, repeat: Repeat, policy: Policy) -> int:
        """What of HBM it may save: all but the carry, which stays, and what the policy keeps.

        Where an activation comes from is seen only as far as its fusion tells: of what products seem to
        make not more than half is taken for kept.
        """
        carry = repeat.bytes // max(repeat.turns or 1, len(repeat.sites), 2)
        keeps_products = bool(policy.name) and not policy.is_offload
        kept = min(repeat.product_bytes, repeat.bytes // 2) if keeps_products else 0
        return max(repeat.bytes - carry - kept, 0)


def policies_for(program: ProgramSubject) -> tuple[Policy, ...]:
    """The named policies that differ for a program: without products all keep the same, and without
    products of more than two dimensions, which may have batch dimensions, those of products do.
    """
    instructions = program.module.by_id.values() if program.module else ()
    products = [i for i in instructions if i.op_name.rpartition("/")[2] in _PRODUCTS]
    if not products:
        return (NOTHING,)
    ranks = [len(i.shape.dims) for i in products if isinstance(i.shape, ArrayShape)]
    return NAMED if max(ranks, default=0) > _RANK_OF_MATRICES else (NOTHING, WEIGHT_DOTS)


def costs_of(program: ProgramSubject) -> RematCosts:
    """The forward pass of a program in time."""
    time = program.report.time
    if time is None:
        return RematCosts(forward_s=None, product_s=None)
    forward = [r for r in time.rows if r.phase is Phase.FORWARD]
    products = [r for r in forward if r.op_name.rpartition("/")[2] in _PRODUCTS]
    return RematCosts(
        forward_s=sum(r.seconds for r in forward), product_s=sum(r.seconds for r in products)
    )
