"""Reads `abi.json`: functions with their offsets, structs with their fields, enums."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a struct: its name, C type and offset in bytes."""

    name: str
    type: str
    offset: int


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct of the ABI with its size in bytes. Fields with one offset form a union."""

    name: str
    size: int
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """An entry of the function table: its name, offset in bytes, argument and result type."""

    name: str
    offset: int
    argument: str
    returns: str


@dataclass(frozen=True, slots=True)
class Abi:
    """The whole ABI: version, size of the table in bytes, functions, structs and enums."""

    version: tuple[int, int]
    table_size: int
    functions: tuple[Function, ...]
    structs: dict[str, Struct]
    enums: dict[str, dict[str, int]]


@cache
def load_abi() -> Abi:
    """The ABI described by `abi.json`."""
    raw = json.loads((Path(__file__).parent / "abi.json").read_text())
    functions = tuple(
        Function(f["name"], f["offset"], f["args"][0].removesuffix("*").strip(), f["returns"])
        for f in raw["functions"]
        if "args" in f
    )
    structs = {
        name: Struct(
            name,
            s["size"],
            tuple(Field(f["name"], f["type"].strip(), f["offset"]) for f in s["fields"]),
        )
        for name, s in raw["structs"].items()
    }
    version = (raw["api_version"]["major"], raw["api_version"]["minor"])
    return Abi(version, raw["api_struct_size"], functions, structs, raw["enums"])


def split_array(type_name: str) -> tuple[str, int]:
    """`int32_t[4]` as `("int32_t", 4)`; any other type as `(type, 0)`."""
    match = re.fullmatch(r"(.+)\[(\d+)\]", type_name)
    return (match[1], int(match[2])) if match else (type_name, 0)


def is_pointer(type_name: str) -> bool:
    """Whether a C type is a data or function pointer."""
    return "*" in type_name


def group_unions(fields: tuple[Field, ...]) -> list[tuple[Field, ...]]:
    """Neighbouring fields that share an offset, as one group each (a union when longer than 1)."""
    groups: list[list[Field]] = []
    for field in fields:
        if groups and groups[-1][0].offset == field.offset:
            groups[-1].append(field)
        else:
            groups.append([field])
    return [tuple(group) for group in groups]
