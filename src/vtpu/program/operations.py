"""What an instruction does beyond its opcode: the dimensions it contracts, the devices it talks to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Precision(IntEnum):
    """What the user asked of a product of 32-bit numbers. Values are those of XLA's `PrecisionConfig`."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DotDimensions:
    """Which dimensions of a `dot`'s two operands are contracted, and which are batch dimensions."""

    lhs_contracting: tuple[int, ...] = ()
    rhs_contracting: tuple[int, ...] = ()
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window that moves over an array."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionDimensions:
    """The roles of the dimensions of a `convolution`'s input, kernel and output.

    The compiler for TPUs writes matrix products as convolutions: without spatial dimensions they are
    products, with spatial dimensions that a window of the kernel's size covers they are batched.
    """

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]
    feature_groups: int = 1
    batch_groups: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """Between which devices of the program an instruction moves data, as places in its assignment.

    `groups` are those that work together; none means all of them. `pairs` are (from, to) of a
    permutation. `channel` is set when the numbers count over replicas and partitions together.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    channel: int | None = None
