"""Long scans in blocks: the carry of about the root of their steps is kept, the others are computed again."""

from __future__ import annotations

import ast

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.edits import Edit, Helper, Import, Replace
from vtpu.changes.source.names import qualified
from vtpu.changes.source.repeats import Repeat

NAME = "scan_in_blocks"
_KEYWORDS = {"f", "init", "xs", "length"}
_SOURCE = '''
def scan_in_blocks(f, init, xs=None, length=None):
    """`jax.lax.scan` that keeps the carry of about sqrt(n) of its n steps for the gradient.

    The steps between two of those are computed again in the backward pass, block by block.
    """
    steps = jax.tree.leaves(xs)[0].shape[0] if length is None else length
    size = max(1, math.isqrt(steps))
    blocks = steps // size
    split = blocks * size

    def block(carry, part):
        return jax.lax.scan(f, carry, part, length=size)

    def join(first, rest):
        return jax.numpy.concatenate([first.reshape(split, *first.shape[2:]), rest])

    parts = jax.tree.map(lambda x: x[:split].reshape(blocks, size, *x.shape[1:]), xs)
    carry, ys = jax.lax.scan(
        jax.checkpoint(block, prevent_cse=False), init, parts, length=blocks
    )
    rest = jax.tree.map(lambda x: x[split:], xs)
    carry, more = jax.lax.scan(f, carry, rest, length=steps - split)
    return carry, jax.tree.map(join, ys, more)
'''


class OtherScan(Exception):
    """A scan that cannot be split, and why."""


def in_blocks(repeat: Repeat) -> tuple[Edit, ...]:
    """The edits that have a scan go in blocks.

    Raises:
        OtherScan: it is none of `jax.lax.scan`, or has options that blocks do not have.
    """
    file, node = repeat.file, repeat.sites[0].node
    if not isinstance(node, ast.Call) or qualified(file, node.func) != "jax.lax.scan":
        raise OtherScan("it is no `jax.lax.scan`")
    others = {k.arg for k in node.keywords} - _KEYWORDS
    if others or len(node.args) > len(_KEYWORDS):
        raise OtherScan(f"it has other options: {', '.join(sorted(map(str, others)))}")
    begin, end = file.span(node.func)
    return Replace(file=file.name, begin=begin, end=end, text=NAME), *_helper(file)


def _helper(file: SourceFile) -> tuple[Edit, ...]:
    imports = [Import(file=file.name, statement=f"import {name}") for name in ("math", "jax")]
    return *imports, Helper(file=file.name, name=NAME, source=_SOURCE)
