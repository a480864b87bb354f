"""Blocks that a kernel's arrays could be cut into."""

from __future__ import annotations

import pytest

from vtpu.analysis.program.kernel_vmem import fitting_block
from vtpu.program.shapes import ArrayShape, parse_shape
from vtpu.units import MIB


def arrays(*texts: str) -> list[ArrayShape]:
    return [shape for text in texts if isinstance(shape := parse_shape(text), ArrayShape)]


@pytest.mark.parametrize(
    ("texts", "block"),
    [
        (("f32[2048,4096]", "f32[2048,4096]"), (128, 4096)),
        (("f32[2048,4096]", "bf16[2048,4096]"), (128, 4096)),
        (("f32[4,2048,1024]", "f32[4,2048,1024]"), (1, 512, 1024)),
        (("f32[64,128]", "f32[64,128]"), (64, 128)),
        (("f32[2048,4096]", "f32[4096,2048]"), None),
        (("f32[7,4194304]", "f32[7,4194304]"), None),
        ((), None),
    ],
)
def test_a_block_of_whole_rows_takes_half_of_the_limit_at_most(
    texts: tuple[str, ...], block: tuple[int, ...] | None
) -> None:
    assert fitting_block(arrays(*texts), 16 * MIB) == block
