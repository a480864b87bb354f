"""The ABI's structs as ctypes structures, checked against the recorded offsets and sizes.

Pointers of every kind are `c_void_p`: whoever follows one knows what it points to.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from vtpu.pjrt.abi import Field, group_unions, is_pointer, load_abi, split_array

_PRIMITIVES: dict[str, Any] = {
    "size_t": ctypes.c_size_t,
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "uint8_t": ctypes.c_uint8,
    "_Bool": ctypes.c_bool,
    "float": ctypes.c_float,
    "intptr_t": ctypes.c_ssize_t,
    "uintptr_t": ctypes.c_size_t,
}


def _ctype(type_name: str) -> Any:
    element, count = split_array(type_name)
    if count:
        return _ctype(element) * count
    if is_pointer(type_name) or "(" in type_name:
        return ctypes.c_void_p
    if type_name in _PRIMITIVES:
        return _PRIMITIVES[type_name]
    if type_name in load_abi().enums:
        return ctypes.c_int
    return struct(type_name)


def _member(struct_name: str, index: int, group: tuple[Field, ...]) -> tuple[str, Any, bool]:
    if len(group) == 1:
        return group[0].name, _ctype(group[0].type), False
    fields = [(f.name, _ctype(f.type)) for f in group]
    union = type(f"{struct_name}_union{index}", (ctypes.Union,), {"_fields_": fields})
    return f"_union{index}", union, True


@cache
def struct(name: str) -> Any:
    """The ctypes structure `name`.

    Raises:
        KeyError: the ABI has no such struct.
        AssertionError: ctypes lays it out otherwise than the ABI says (not a 64-bit platform).
    """
    description = load_abi().structs[name]
    members = [_member(name, i, group) for i, group in enumerate(group_unions(description.fields))]
    built = type(
        name,
        (ctypes.Structure,),
        {
            "_anonymous_": [m for m, _, anonymous in members if anonymous],
            "_fields_": [(m, ctype) for m, ctype, _ in members],
        },
    )
    assert ctypes.sizeof(built) >= description.size, f"{name} is too small here"
    for field in description.fields:
        assert getattr(built, field.name).offset in (field.offset, 0), f"{name}.{field.name}"
    return built
