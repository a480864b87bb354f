"""Layers that a Python loop unrolled into a program."""

from __future__ import annotations

from hlo_texts import module_of
from vtpu.analysis.program.repeated_layers import find_repeated_layers
from vtpu.analysis.source_lines import UserLines
from vtpu.program.modules import Module


def unrolled(layers: int, names: bool = True) -> Module:
    """Layers of two products each, the second of which the first layer has not."""
    lines = ["x0 = f32[8,64]{1,0} parameter(0)", "w = f32[64,64]{1,0} parameter(1)"]
    dot = 'dot({}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="{}"}}'
    for n in range(layers):
        place = f"jit(step)/layer_{n}" if names else "jit(step)"
        lines.append(f"y{n} = f32[8,64]{{1,0}} " + dot.format(f"x{n}", f"{place}/up/dot_general"))
        lines.append(
            f"x{n + 1} = f32[8,64]{{1,0}} " + dot.format(f"y{n}", f"{place}/down/dot_general")
        )
    lines[-1] = "ROOT " + lines[-1]
    return module_of(*lines)  # fmt: skip


def test_equal_layers_are_counted_by_their_paths_without_numbers() -> None:
    found = find_repeated_layers(unrolled(16), UserLines())
    assert found
    assert (found.times, found.products, found.share, found.name) == (16, 2, 1.0, "layer_*")


def test_layers_without_names_are_counted_too() -> None:
    found = find_repeated_layers(unrolled(16, names=False), UserLines())
    assert found
    assert (found.times, found.name) == (16, "")


def test_a_few_layers_are_no_matter() -> None:
    assert find_repeated_layers(unrolled(5), UserLines()) is None
