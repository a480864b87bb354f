"""Compiles functions of a program for this process's slice and prints what the compiler said.

`python compile_case.py PROG NAME...` prints a line of JSON per name. A name is that of a jitted
function in the program (`step`, `fixed`), one of its `variants`, or a size of its `sweep`; what it
is compiled for stands beside it: `args`, `fixed_args`, `sweep`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import warnings
from types import ModuleType
from typing import Any

import jax

_FIGURES = {
    "argument_bytes": "argument_size_in_bytes",
    "output_bytes": "output_size_in_bytes",
    "alias_bytes": "alias_size_in_bytes",
    "temp_bytes": "temp_size_in_bytes",
    "generated_code_bytes": "generated_code_size_in_bytes",
    "host_output_bytes": "host_output_size_in_bytes",
    "peak_memory_bytes": "peak_memory_in_bytes",
}


def main(path: str, *names: str) -> None:
    program = load(path)
    for name in names:
        print(json.dumps(measure(*find(program, name))), flush=True)


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("prog", path)
    assert spec
    assert spec.loader
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def find(program: ModuleType, name: str) -> tuple[Any, Any]:
    """A jitted function of the program and its abstract arguments."""
    if name.isdigit():
        return program.step, program.sweep[int(name)]
    if name in getattr(program, "variants", {}):
        return program.variants[name], program.args
    return getattr(program, name), getattr(program, f"{name}_args", program.args)


def measure(function: Any, arguments: Any) -> dict[str, Any]:
    """What the compiler says of a function: sizes, costs, collectives; or its error."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            compiled = function.lower(*arguments).compile()
        except jax.errors.JaxRuntimeError as error:
            return {"error": type(error).__name__, "message": str(error)}
    stats, text = compiled.memory_analysis(), compiled.as_text()
    return {
        **{name: getattr(stats, field) for name, field in _FIGURES.items()},
        "flops_by_cost_analysis": compiled.cost_analysis().get("flops"),
        "all_gathers": len(re.findall(r"\ball-gather(?:-start)?\(", text)),
        "all_to_alls": len(re.findall(r"\ball-to-all(?:-start)?\(", text)),
        "warnings": len(warned),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
