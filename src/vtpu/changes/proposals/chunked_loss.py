"""A loss over a vocabulary computed for a part of the rows after the other."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.chunking import edits_of, plan
from vtpu.changes.situation import Situation
from vtpu.changes.source.wide_products import WideProduct, wide_products
from vtpu.changes.source.wide_values import UsedWhole

KIND = "chunked-loss"
_CHUNKS = (8, 16)
_OF_A_LOSS = ("softmax", "logsumexp", "exp", "cross_entropy")


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """For each loss whose logits are large: in 8 and in 16 chunks."""
    products = wide_products(situation)
    losses = [p for p in products if p.values and _is_loss(p)]
    if not losses:
        large = [
            f"what is made of the product in {p.place} is not followed: {p.why_not}"
            for p in products
            if p.why_not
        ]
        reason = (
            large[0]
            if large
            else "no loss over a wide axis takes much memory in a function that is understood"
        )
        yield NotApplicable(kind=KIND, reason=reason)
    for product in losses:
        yield from _changes(product)


def _is_loss(product: WideProduct) -> bool:
    values = product.values
    return bool(
        values and values.ends and any(part in n for n in values.names for part in _OF_A_LOSS)
    )


def _changes(product: WideProduct) -> Iterable[Change | NotApplicable]:
    assert product.values is not None
    try:
        chunked = plan(product.values)
        edits = [tuple(edits_of(chunked, chunks)) for chunks in _CHUNKS]
    except UsedWhole as why:
        yield NotApplicable(
            kind=KIND, reason=f"the loss in {product.place} cannot be parted: {why}"
        )
        return
    for chunks, edit in zip(_CHUNKS, edits, strict=True):
        yield Change(
            kind=KIND,
            title=f"compute the loss of {product.place} in {chunks} chunks of rows",
            numerics=Numerics.TOLERANCE,
            edits=edit,
            group=f"{KIND} {product.place}",
            caution="the gradient computes the logits of each chunk again",
            expected_bytes=product.bytes * (1 - 1 / chunks),
        )


PROPOSAL = Proposal(
    kind=KIND,
    what="A loss over a vocabulary is computed for an 8th or 16th of the rows after the other under "
    "`jax.checkpoint`, so that the logits of all rows are never held.",
    applies="In one function, a product of rows with a matrix leads through operations on single rows (softmax, "
    "logsumexp, one-hot labels, `take_along_axis`, optax's cross entropies) to one number of each row, and "
    "nothing else uses what is between. Masks, means and sums behind stay as they are.",
    numerics="Equal but for rounding: the gradient of the matrix is summed over the chunks.",
    propose=propose,
)
