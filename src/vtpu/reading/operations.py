"""The attributes of an instruction from its fields in `HloInstructionProto`.

Field numbers are those of openxla/xla `xla/service/hlo.proto` and `xla/xla_data.proto`; those of
device lists by mesh axes (93) were read off modules that libtpu 0.0.50.1 writes.
"""

from __future__ import annotations

from math import prod

from vtpu.program.operations import (
    Collective,
    ConvolutionDimensions,
    DotDimensions,
    Precision,
    WindowDimension,
)
from vtpu.reading import wire

_PRECISIONS = set(map(int, Precision))


def dot_dimensions(fields: wire.Fields) -> DotDimensions | None:
    """What a `dot` contracts; None for other instructions."""
    if 30 not in fields:
        return None
    numbers = wire.group(wire.last_bytes(fields, 30))
    return DotDimensions(
        lhs_contracting=wire.all_ints(numbers, 1),
        rhs_contracting=wire.all_ints(numbers, 2),
        lhs_batch=wire.all_ints(numbers, 3),
        rhs_batch=wire.all_ints(numbers, 4),
    )


def precision(fields: wire.Fields) -> Precision:
    """The precision of a product: that of its more precise operand."""
    if 51 not in fields:
        return Precision.DEFAULT
    asked = wire.all_ints(wire.group(wire.last_bytes(fields, 51)), 1)
    return max((Precision(p) for p in asked if p in _PRECISIONS), default=Precision.DEFAULT)


def window(fields: wire.Fields) -> tuple[WindowDimension, ...]:
    """The window of a convolution or of a reduction over windows."""
    if 15 not in fields:
        return ()
    return tuple(
        _window_dimension(wire.group(wire.as_bytes(dimension)))
        for dimension in wire.find_all(wire.last_bytes(fields, 15), 1)
    )


def _window_dimension(numbers: wire.Fields) -> WindowDimension:
    return WindowDimension(
        wire.last_int(numbers, 1),
        wire.last_int(numbers, 2) or 1,
        wire.last_int(numbers, 3),
        wire.last_int(numbers, 4),
        wire.last_int(numbers, 5) or 1,
        wire.last_int(numbers, 6) or 1,
    )


def convolution_dimensions(fields: wire.Fields) -> ConvolutionDimensions | None:
    """The roles of a `convolution`'s dimensions; None for other instructions."""
    if 16 not in fields:
        return None
    numbers = wire.group(wire.last_bytes(fields, 16))
    return ConvolutionDimensions(
        input_batch=wire.last_int(numbers, 7),
        input_feature=wire.last_int(numbers, 8),
        input_spatial=wire.all_ints(numbers, 11),
        kernel_input_feature=wire.last_int(numbers, 3),
        kernel_output_feature=wire.last_int(numbers, 4),
        kernel_spatial=wire.all_ints(numbers, 6),
        output_batch=wire.last_int(numbers, 9),
        output_feature=wire.last_int(numbers, 10),
        output_spatial=wire.all_ints(numbers, 12),
        feature_groups=wire.last_int(fields, 50) or 1,
        batch_groups=wire.last_int(fields, 58) or 1,
    )


def rendezvous(fields: wire.Fields) -> dict[str, str]:
    """The front end's attributes of an instruction whose names begin with `_xla`."""
    entries = (wire.group(wire.as_bytes(e)) for e in wire.find_all(wire.last_bytes(fields, 68), 1))
    found = {wire.last_text(entry, 1): wire.last_text(entry, 2) for entry in entries}
    return {name: value for name, value in found.items() if name.startswith("_xla")}


def collective(fields: wire.Fields) -> Collective | None:
    """The devices that an instruction connects; None when it names neither groups nor a channel."""
    if not fields.keys() & {26, 49, 52, 87, 92, 93}:
        return None
    return Collective(
        groups=_groups(fields),
        pairs=tuple(_pair(wire.group(wire.as_bytes(p))) for p in fields.get(52, ())),
        channel=wire.last_int(fields, 26) or None,
    )


def _pair(numbers: wire.Fields) -> tuple[int, int]:
    return wire.last_int(numbers, 1), wire.last_int(numbers, 2)


def _groups(fields: wire.Fields) -> tuple[tuple[int, ...], ...]:
    """Groups of devices, in whichever of the forms that XLA has had they are written."""
    if 93 in fields:
        return _groups_by_axes(wire.group(wire.last_bytes(fields, 93)))
    if 92 in fields:
        return _groups_by_iota(wire.group(wire.last_bytes(fields, 92)))
    if 87 in fields:
        listed = wire.group(wire.last_bytes(fields, 87))
        if 3 in listed:
            return _groups_by_axes(wire.group(wire.last_bytes(listed, 3)))
        if 2 in listed:
            return _groups_by_iota(wire.group(wire.last_bytes(listed, 2)))
        return _listed_groups(listed.get(1, ()))
    return _listed_groups(fields.get(49, ()))


def _listed_groups(groups: list[wire.Value] | tuple[()]) -> tuple[tuple[int, ...], ...]:
    found = (tuple(wire.find_ints(wire.as_bytes(group), 1)) for group in groups)
    return tuple(group for group in found if group)


def _groups_by_iota(numbers: wire.Fields) -> tuple[tuple[int, ...], ...]:
    """Rows of 0, 1, 2 … reshaped, transposed and cut into groups."""
    count, size = wire.last_int(numbers, 1), wire.last_int(numbers, 2)
    dims = wire.all_ints(numbers, 3) or (count * size,)
    order = wire.all_ints(numbers, 4) or tuple(range(len(dims)))
    flat = _transposed(tuple(range(prod(dims))), dims, order)
    return tuple(flat[i * size : (i + 1) * size] for i in range(count))


def _groups_by_axes(numbers: wire.Fields) -> tuple[tuple[int, ...], ...]:
    """Devices of a mesh that differ only along some of its axes, or along parts of axes."""
    mesh = wire.group(wire.last_bytes(numbers, 1))
    sizes = [wire.last_int(wire.group(wire.as_bytes(axis)), 2) for axis in mesh.get(1, ())]
    devices = _mesh_devices(mesh, prod(sizes))
    parts, grouped = _split_axes(sizes, [_axis(a) for a in numbers.get(2, ())])
    kept = [i for i in range(len(parts)) if i not in grouped]
    flat = _transposed(devices, tuple(parts), (*kept, *grouped))
    size = prod(parts[i] for i in grouped)
    return tuple(flat[i : i + size] for i in range(0, len(flat), size)) if size else ()


def _mesh_devices(mesh: wire.Fields, count: int) -> tuple[int, ...]:
    """The devices of a mesh in its order: listed, or counting up."""
    listed = wire.all_ints(mesh, 2)
    return listed if len(listed) == count else tuple(range(count))


def _axis(data: wire.Value) -> tuple[int, int, int]:
    """An axis's number, and of a part of it the size before it and its own; else (number, 1, 0)."""
    fields = wire.group(wire.as_bytes(data))
    part = wire.group(wire.last_bytes(fields, 2))
    return wire.last_int(fields, 1), wire.last_int(part, 1) or 1, wire.last_int(part, 2)


def _split_axes(
    sizes: list[int], axes: list[tuple[int, int, int]]
) -> tuple[list[int], tuple[int, ...]]:
    """The mesh's axes, cut where only a part of one is meant, and the places of what is meant."""
    parts: list[int] = []
    places: dict[tuple[int, int, int], int] = {}
    for number, size in enumerate(sizes):
        before = 1
        meant = sorted(a for a in axes if a[0] == number)
        for axis in meant:
            own = axis[2] or size
            if axis[1] > before:
                parts.append(axis[1] // before)
            places[axis] = len(parts)
            parts.append(own)
            before = axis[1] * own
        if before < size:
            parts.append(size // before)
    return parts, tuple(places[axis] for axis in axes)


def _transposed(
    values: tuple[int, ...], dims: tuple[int, ...], order: tuple[int, ...]
) -> tuple[int, ...]:
    """`values`, row-major of `dims`, with the dimensions in another order."""
    strides = [prod(dims[i + 1 :]) for i in range(len(dims))]
    found = [0]
    for dimension in order:
        steps = [i * strides[dimension] for i in range(dims[dimension])]
        found = [base + step for base in found for step in steps]
    return tuple(values[i] for i in found)
