"""Layers that stand in a program many times over, because a Python loop unrolled them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from vtpu.analysis.source_lines import SourceLine, UserLines
from vtpu.program.modules import Instruction, Module
from vtpu.program.op_names import Phase, phase_of
from vtpu.program.shapes import ArrayShape

_PRODUCTS = ("dot", "convolution")
_DIGITS = re.compile(r"\d+")
_FEWEST = 12  # of a layer: with fewer a scan saves little
_Signature = tuple[str, str, str, SourceLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedLayers:
    """`times` equal layers, each of `products` matrix products, which are `share` of all in the program.

    `line` is where most of these products are in the user's program, `name` the path of the layer in JAX's
    names with `*` for its number; empty where the user gave none.
    """

    times: int
    products: int
    share: float
    line: SourceLine
    name: str


def find_repeated_layers(module: Module, lines: UserLines) -> RepeatedLayers | None:
    """The layers of a program; None where nothing is repeated often.

    Matrix products of one line, of one path of names but for numbers, and of one shape are copies of
    each other. A layer has several, some of them twice or thrice, and in the first and the last layer some
    are other ones: the number of copies that most have is that of the layers.
    """
    products = [
        _signature(i, module, lines) for i in _instructions(module) if i.opcode in _PRODUCTS
    ]
    copies = Counter(products)
    often = {signature: n for signature, n in copies.items() if n >= _FEWEST}
    if not often:
        return None
    numbers = Counter(often.values())
    times = min(numbers, key=lambda n: (-numbers[n], n))
    line = max(often, key=lambda signature: (often[signature], signature))[3]
    return RepeatedLayers(
        times=times,
        products=round(sum(often.values()) / times),
        share=sum(often.values()) / len(products),
        line=line,
        name=_layer_name(often),
    )


def _instructions(module: Module) -> list[Instruction]:
    return [i for c in module.computations.values() for i in c.instructions]


def _signature(product: Instruction, module: Module, lines: UserLines) -> _Signature:
    path = _DIGITS.sub("*", product.op_name)
    operands = " ".join(_sizes(module.by_id[o]) for o in product.operands)
    return path, _sizes(product), operands, lines.line(module.frames(product))


def _sizes(value: Instruction) -> str:
    """A shape without its layout, which differs between copies."""
    return str(value.shape.dims) if isinstance(value.shape, ArrayShape) else str(value.shape)


def _layer_name(often: dict[_Signature, int]) -> str:
    """What the paths of the copies have in common up to the number of the layer."""
    paths = [path for path, *_ in often if "*" in path and phase_of(path) is not Phase.BACKWARD]
    heads = Counter(path[: path.index("*") + 1].rsplit("/", 1)[-1] for path in paths)
    return max(heads, key=lambda head: (heads[head], head), default="")
