"""Element types, numbered as the PJRT ABI numbers them, with their widths."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np


class ElementType(IntEnum):
    """An array's element type. Values are those of `PJRT_Buffer_Type`."""

    INVALID = 0
    PRED = 1
    S8 = 2
    S16 = 3
    S32 = 4
    S64 = 5
    U8 = 6
    U16 = 7
    U32 = 8
    U64 = 9
    F16 = 10
    F32 = 11
    F64 = 12
    BF16 = 13
    C64 = 14
    C128 = 15
    F8E5M2 = 16
    F8E4M3FN = 17
    F8E4M3B11FNUZ = 18
    F8E5M2FNUZ = 19
    F8E4M3FNUZ = 20
    S4 = 21
    U4 = 22
    TOKEN = 23
    S2 = 24
    U2 = 25
    F8E4M3 = 26
    F8E3M4 = 27
    F8E8M0FNU = 28
    F4E2M1FN = 29

    @property
    def xla_name(self) -> str:
        """The name in HLO text: `bf16`."""
        return self.name.lower()

    @property
    def bits(self) -> int:
        """Bits of one element as a type; a bool counts 8, a token 0."""
        return _BITS[self]

    @property
    def host_bytes(self) -> int:
        """Bytes of one element in host memory, where 2- and 4-bit types take a byte each."""
        return (self.bits + 7) // 8

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """NumPy's type for it, as the host holds elements."""
        name = self.name.lower()
        known = {"pred": "bool", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128"}
        if name[0] == "f" and "e" in name:  # f8e4m3fn: float8_e4m3fn
            name = f"float{name[1]}_{name[2:]}"
        elif name in known:
            name = known[name]
        else:
            name = {"s": "int", "u": "uint", "f": "float"}[name[0]] + name[1:]
        return np.dtype(getattr(ml_dtypes, name, None) or name)


_BITS = {
    t: {
        "INVALID": 0, "PRED": 8, "TOKEN": 0, "S16": 16, "U16": 16, "F16": 16, "BF16": 16,
        "S32": 32, "U32": 32, "F32": 32, "S64": 64, "U64": 64, "F64": 64, "C64": 64, "C128": 128,
        "S4": 4, "U4": 4, "F4E2M1FN": 4, "S2": 2, "U2": 2,
    }.get(t.name, 8)
    for t in ElementType
}  # fmt: skip
