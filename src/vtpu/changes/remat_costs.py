"""What a checkpoint may save and cost, as far as the program without it tells. It only orders candidates."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.changes.policies import Policy
from vtpu.changes.repeats import Repeat
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.op_names import Phase

_PRODUCTS = ("dot_general", "conv_general_dilated")


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
        """What of HBM it may save: without the carry of each turn, which stays."""
        carry = repeat.bytes // max(repeat.turns or 1, len(repeat.sites), 2)
        kept = 0 if not policy.name or policy.is_offload else repeat.product_bytes
        return max(repeat.bytes - carry - kept, 0)


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
