"""Attention in blocks of queries, so that only the scores of one block are alive."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from vtpu.analysis.program.memory import MemoryItem
from vtpu.analysis.program.sources import source_of
from vtpu.analysis.source.files import SourceFile
from vtpu.analysis.source_lines import UserLines
from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.query_blocks import in_query_blocks
from vtpu.changes.situation import Situation
from vtpu.changes.source.attention import Attention, NotAttention, find_attention

KIND = "chunked-attention"
_LEAST_SHARE = 0.05  # of the program's need, of all arrays that may be scores
_LEAST_KEYS = 256  # of fewer the scores are small beside the heads' other activations
_BLOCKS = (512, 2048)  # queries of each device
_LEAST_BLOCKS = 4


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """Blocks of queries for each function in whose code large arrays of scores are made."""
    scores = _scores(situation)
    need = situation.program.report.need_bytes or 0
    if not scores or sum(i.bytes for i in scores) < _LEAST_SHARE * need:
        yield NotApplicable(kind=KIND, reason="no large scores are alive at the peak")
        return
    found = False
    reasons: list[str] = []
    for file, function in _functions(situation, scores):
        try:
            attention = find_attention(file, function.body)
        except NotAttention as reason:
            reasons.append(f"{function.name} (line {function.lineno}): {reason}")
            continue
        found = True
        yield from _in_blocks(attention, function.name, scores, _spread_over(situation, scores))
    if not found:
        place = "; ".join(reasons[:3]) or "they are made in none of the program's own functions"
        yield NotApplicable(
            kind=KIND, reason=f"no attention is written out where it is known: {place}"
        )


def _scores(situation: Situation) -> list[MemoryItem]:
    """Arrays at the peak that may be scores: their last two dimensions are long."""
    usage = situation.program.report.usage
    items = usage.hbm.at_peak() if usage and usage.hbm else ()
    return [i for i in items if i.op_name and i.shape and _is_long(i.shape.dims)]


def _is_long(dims: tuple[int, ...]) -> bool:
    return len(dims) > 2 and min(sorted(dims)[-2:]) >= _LEAST_KEYS


def _spread_over(situation: Situation, scores: Iterable[MemoryItem]) -> int:
    """Over how many devices the queries are split: each has so much less of them than of the keys."""
    sizes = [sorted(i.shape.dims)[-2:] for i in scores if i.shape]
    ratios = {longest // shorter for shorter, longest in sizes if longest % shorter == 0}
    return max((r for r in ratios if r <= situation.slice.num_devices), default=1)


def _functions(
    situation: Situation, scores: Iterable[MemoryItem]
) -> list[tuple[SourceFile, ast.FunctionDef]]:
    """The user's functions in which arrays are made, the innermost of the largest ones first."""
    module, lines = situation.program.module, situation.program.report.lines or UserLines()
    by_name = {i.name: i for i in module.by_id.values()} if module else {}
    found: dict[tuple[str, int], tuple[SourceFile, ast.FunctionDef]] = {}
    for item in scores:
        instruction = by_name.get(item.name)
        frames = source_of(module, instruction).frames if module and instruction else ()
        for frame in lines.own_frames(frames):
            file = situation.files.get(frame.file)
            around = file.on_line(frame.line, ast.FunctionDef) if file else []
            if file and around and isinstance(around[0], ast.FunctionDef):
                found.setdefault((file.name, around[0].lineno), (file, around[0]))
    return list(found.values())


def _in_blocks(
    attention: Attention, name: str, scores: list[MemoryItem], devices: int
) -> Iterator[Change | NotApplicable]:
    queries = devices * max(sorted(i.shape.dims)[-2] for i in scores if i.shape)
    size = sum(i.bytes for i in scores)
    blocks = [block for b in _BLOCKS if (block := b * devices) <= queries // 2]
    for block in blocks or [queries // _LEAST_BLOCKS]:
        try:
            edits = in_query_blocks(attention, block)
        except NotAttention as reason:
            yield NotApplicable(kind=KIND, reason=f"{name}: {reason}")
            return
        yield Change(
            kind=KIND,
            title=f"{name} in blocks of {block} queries",
            numerics=Numerics.TOLERANCE,
            edits=edits,
            group=f"{KIND} {attention.file.name}:{attention.last.lineno}",
            expected_bytes=size * (1 - block / queries),
        )


PROPOSAL = Proposal(
    kind=KIND,
    what="Attention that is written out, in blocks of queries under `jax.checkpoint`.",
    applies="Large arrays of scores are alive at the peak, and the function that makes them is a product, one "
    "softmax over its last dimension and a second product, with nothing but operations element by element "
    "(scale, mask, bias, type) between.",
    numerics="Equal within tolerance: each row is computed as before, in products of other sizes.",
    propose=propose,
)
