"""How and where a model is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

AXES = (
    "data",
    "fsdp",
    "fsdp_transpose",
    "sequence",
    "context",
    "tensor",
    "tensor_transpose",
    "tensor_sequence",
    "expert",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Block sizes of the splash attention kernel, in tokens, and whether its backward pass is one kernel."""

    q: int = 512
    kv: int = 512
    kv_compute: int = 512
    q_dkv: int = 512
    kv_dkv: int = 512
    kv_dkv_compute: int = 512
    q_dq: int = 512
    kv_dq: int = 512
    use_fused_bwd_kernel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One configuration of a training run.

    `mesh` are the sizes of the mesh's axes within a slice, `dcn_mesh` across slices; one axis of each may
    be -1, which takes what is left (by default `fsdp` within a slice, `data` across). `slice` is a name
    in any dialect of vtpu's, `slices` how many of it. `per_device_batch` counts sequences per XLA device.

    A mesh axis takes whole axes of the torus, or, with `split_physical_axes`, parts of one; `rings` lays
    the mesh over a 16x16 torus in rings of so many neighbours.

    `remat` is one of MaxText's policies by name (see `remat.POLICIES`); for `custom`, `tensors` says of
    named tensors whether they are `save`d, `offload`ed to the host or recomputed (`remat`).
    `attention` is `splash` or `old_flash` (Pallas kernels of jax), or `dot_product`.
    `moe` is how experts multiply: `megablox` (a Pallas kernel), `ragged_dot`, or `dense` (einsums
    over all experts, or up to `capacity_factor` times their even share of the tokens).
    `scan_axis` is the dimension of stacked weights that counts layers. `flags` are XLA's.
    """

    slice: str
    per_device_batch: float
    sequence: int
    slices: int = 1
    mesh: Mapping[str, int] = field(default_factory=dict[str, int])
    dcn_mesh: Mapping[str, int] = field(default_factory=dict[str, int])
    split_physical_axes: bool = False
    rings: Literal["", "64x4", "32x8"] = ""
    remat: str = "full"
    tensors: Mapping[str, str] = field(default_factory=dict[str, str])
    scan_layers: bool = True
    scan_axis: int = 1
    attention: Literal["splash", "old_flash", "dot_product"] = "splash"
    blocks: Blocks = Blocks()
    iota_embed: bool = False
    moe: Literal["megablox", "ragged_dot", "dense"] = "megablox"
    capacity_factor: float | None = None
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuses what no mesh has.

        Raises:
            ValueError: an axis that is not known, or two of unknown size.
        """
        if min(self.per_device_batch, self.sequence, self.slices) <= 0:
            raise ValueError("per_device_batch, sequence and slices are larger than 0")
        for name, mesh in (("mesh", self.mesh), ("dcn_mesh", self.dcn_mesh)):
            if unknown := [axis for axis in mesh if axis not in AXES]:
                raise ValueError(
                    f"{name} has no axis {', '.join(unknown)}; it has {', '.join(AXES)}"
                )
            if any(size < 1 and size != -1 for size in mesh.values()):
                raise ValueError(f"sizes of {name} are at least 1, or -1 for what is left")
            if sum(size == -1 for size in mesh.values()) > 1:
                raise ValueError(f"only one axis of {name} can be -1")

    @property
    def slice_name(self) -> str:
        """The slice, or several of it, as vtpu names them."""
        return self.slice if self.slices == 1 else f"{self.slices}*{self.slice}"
