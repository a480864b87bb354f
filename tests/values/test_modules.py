"""What the modules of programs say."""

from __future__ import annotations

import pytest
from jaxlib.mlir import ir

from vtpu.program.element_types import ElementType
from vtpu.values.modules import dtype_of, new_context

AS_MLIR = {
    ElementType.PRED: "i1",
    ElementType.C64: "complex<f32>",
    ElementType.C128: "complex<f64>",
}


def mlir_name(kind: ElementType) -> str:
    """An element type as MLIR prints it, which has parsed what StableHLO calls it."""
    name = {"S": "i", "U": "ui", "F": "f"}.get(kind.name[0], "") + kind.name[1:]
    text = AS_MLIR.get(kind, "bf16" if kind is ElementType.BF16 else name)
    with new_context():
        return str(ir.Type.parse(text))


ARRAYS = [t for t in ElementType if t not in (ElementType.INVALID, ElementType.TOKEN)]


@pytest.mark.parametrize("kind", ARRAYS)
def test_every_element_type_of_a_module_is_known_to_numpy(kind: ElementType) -> None:
    assert dtype_of(mlir_name(kind)) == kind.numpy_dtype
