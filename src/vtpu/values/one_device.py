"""The part of a sharded program that every device computes alike, as a program for one device.

A step counter or a learning rate is replicated: to know it, one device is enough, however many the
program has.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from vtpu.values.cpu_form import replace_with, target_of
from vtpu.values.modules import (
    dictionaries,
    functions_of,
    operations_in,
    set_dictionaries,
)

_SHARDINGS = ("mhlo.sharding", "sdy.sharding")
_BETWEEN_DEVICES = {
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.partition_id",
    "stablehlo.reduce_scatter",
    "stablehlo.replica_id",
    "sdy.manual_computation",
}


def is_for_any_device(module: ir.Module) -> bool:
    """Whether nothing in `module` depends on which device it runs on."""
    return not any(_is_between_devices(op) for op in operations_in(module.operation))


def _is_between_devices(operation: Any) -> bool:
    if operation.name == "stablehlo.custom_call":
        return target_of(operation).startswith("SPMD")
    return operation.name in _BETWEEN_DEVICES


def make_for_one_device(module: ir.Module) -> None:
    """Takes from `module` how it is spread."""
    with module.context, ir.Location.unknown():
        for operation in operations_in(module.operation):
            for name in _SHARDINGS:
                if name in operation.attributes:
                    del operation.attributes[name]
            if operation.name == "sdy.mesh":
                operation.erase()
            elif operation.name in ("sdy.sharding_constraint", "sdy.reshard") or (
                operation.name == "stablehlo.custom_call" and target_of(operation) == "Sharding"
            ):
                replace_with(operation, [operation.operands[0]])
        for function in functions_of(module):
            for name in ("arg_attrs", "res_attrs"):
                _without_shardings(function, name)
        attributes = module.operation.attributes
        attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)


def _without_shardings(function: Any, name: str) -> None:
    if name not in function.attributes:
        return
    count = len(ir.ArrayAttr(function.attributes[name]))
    kept = [
        {k: v for k, v in entry.items() if k not in _SHARDINGS}
        for entry in dictionaries(function, name, count)
    ]
    set_dictionaries(function, name, kept)
