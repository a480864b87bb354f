"""Writes the C declarations of the ABI, for the native core.

Opaque types (`PJRT_Buffer`, `PJRT_Client`, …) are only declared: the core defines them. Static
assertions make the compiler check every offset against the data.
"""

from __future__ import annotations

import re

from vtpu.pjrt.abi import Abi, Field, Struct, group_unions, load_abi, split_array

_BUILT_IN = {
    "void", "char", "int", "float", "size_t", "int32_t", "int64_t", "uint8_t", "uint64_t",
    "intptr_t", "uintptr_t", "_Bool",
}  # fmt: skip


def _declare(type_name: str, name: str) -> str:
    element, count = split_array(type_name)
    if count:
        return f"{element} {name}[{count}]"
    if "(" in type_name:  # a function pointer: the name goes behind its stars
        return re.sub(
            r"\(( ?\*)+ ?\)", lambda m: m[0].replace(" ", "")[:-1] + name + ")", type_name, count=1
        )
    return f"{type_name} {name}"


def _body(fields: tuple[Field, ...]) -> list[str]:
    lines: list[str] = []
    for group in group_unions(fields):
        members = [f"{_declare(f.type, f.name)};" for f in group]
        if len(group) > 1:
            members = ["union {", *members, "};"]
        lines += members
    return lines


def _by_value(struct: Struct, abi: Abi) -> set[str]:
    return {f.type for f in struct.fields if f.type in abi.structs}


def _in_order(abi: Abi) -> list[Struct]:
    """Structs so that each stands behind those it holds by value."""
    done: dict[str, Struct] = {}

    def visit(struct: Struct) -> None:
        if struct.name not in done:
            for inner in sorted(_by_value(struct, abi)):
                visit(abi.structs[inner])
            done[struct.name] = struct

    for struct in abi.structs.values():
        visit(struct)
    return list(done.values())


def _named_types(abi: Abi) -> list[str]:
    types = [f.type for s in abi.structs.values() for f in s.fields]
    words = {w for t in types for w in re.findall(r"[A-Za-z_]\w*", t)}
    words |= set(abi.structs) | {f.argument for f in abi.functions}
    return sorted(words - _BUILT_IN - set(abi.enums))


def render_header(abi: Abi | None = None) -> str:
    """The C header as text: enums, structs, prototypes, the table `PJRT_Api`, and `VTPU_STUBS`.

    `VTPU_STUBS(X)` expands `X(name, argument_type)` for every function that returns an error.
    """
    abi = abi or load_abi()
    out = [
        "/* Generated from abi.json by vtpu.pjrt.declarations; do not edit. */",
        "#ifndef VTPU_PJRT_H",
        "#define VTPU_PJRT_H",
        "#include <stddef.h>",
        "#include <stdint.h>",
    ]
    for name, values in abi.enums.items():
        entries = ", ".join(f"{k} = {v}" for k, v in values.items())
        out.append(f"typedef enum {{ {entries} }} {name};")
    out += [f"typedef struct {name} {name};" for name in _named_types(abi)]
    for struct in _in_order(abi):
        out += [f"struct {struct.name} {{", *_body(struct.fields), "};"]
        out += [
            f'_Static_assert(offsetof({struct.name}, {f.name}) == {f.offset}, "{f.name}");'
            for f in struct.fields
        ]
    out += _table(abi)
    out.append("#endif")
    return "\n".join(out) + "\n"


def _table(abi: Abi) -> list[str]:
    major, minor = abi.version
    lines = [
        f"#define VTPU_PJRT_MAJOR {major}",
        f"#define VTPU_PJRT_MINOR {minor}",
        "typedef struct PJRT_Api {",
        "size_t struct_size;",
        "PJRT_Extension_Base *extension_start;",
        "PJRT_Api_Version pjrt_api_version;",
    ]
    lines += [f"{f.returns} (*{f.name})({f.argument} *);" for f in abi.functions]
    lines.append("} PJRT_Api;")
    lines += [
        f'_Static_assert(offsetof(PJRT_Api, {f.name}) == {f.offset}, "{f.name}");'
        for f in abi.functions
    ]
    lines += [f"{f.returns} {f.name}({f.argument} *);" for f in abi.functions]
    stubs = [f"X({f.name}, {f.argument})" for f in abi.functions if f.returns != "void"]
    lines.append("#define VTPU_STUBS(X) " + " ".join(stubs))
    return lines
