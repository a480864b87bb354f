"""Cuts a program down to some of its results."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from vtpu.values.modules import (
    block_of,
    dictionaries,
    main_of,
    operations_in,
    return_of,
    set_dictionaries,
    set_signature,
)

_CLEAN = "builtin.module(inline,canonicalize,cse,symbol-dce)"


def keep_outputs(module: ir.Module, kept: tuple[int, ...]) -> tuple[int, ...]:
    """Leaves in `module` only what the outputs `kept` need; the parameters that are left.

    Effects stay. Loops keep their carried values, but what no kept result needs is not computed in
    them any more.
    """
    with module.context, ir.Location.unknown():
        main = main_of(module)
        _return_only(main, kept)
        passes = PassManager.parse(_CLEAN)
        passes.run(module.operation)
        _erase_unused(main)
        if _prune_loops(main):
            passes.run(module.operation)
            _erase_unused(main)
        return _drop_unused_parameters(main)


def _return_only(main: Any, kept: tuple[int, ...]) -> None:
    end = return_of(main)
    attributes = dictionaries(main, "res_attrs", len(end.operands))
    with ir.InsertionPoint(end):
        ir.Operation.create("func.return", operands=[end.operands[i] for i in kept])
    end.operation.erase()
    set_dictionaries(main, "res_attrs", [attributes[i] for i in kept])
    set_signature(main)


def _drop_unused_parameters(main: Any) -> tuple[int, ...]:
    block = block_of(main)
    attributes = dictionaries(main, "arg_attrs", len(block.arguments))
    used = tuple(i for i, a in enumerate(block.arguments) if any(True for _ in a.uses))
    for i in reversed(range(len(block.arguments))):
        if i not in used:
            block.erase_argument(i)
    set_dictionaries(main, "arg_attrs", [attributes[i] for i in used])
    set_signature(main)
    return used


def _erase_unused(main: Any) -> None:
    """Erases what nobody uses, also constraints on shardings, which MLIR's own passes keep."""
    for operation in reversed(operations_in(main)):
        is_used = any(any(True for _ in r.uses) for r in operation.results)
        if len(operation.results) and not is_used and not _has_effects(operation):
            operation.erase()


# ---- loops -------------------------------------------------------------------------------------


def _prune_loops(main: Any) -> bool:
    """Passes what a loop carries for nobody through unchanged, outer loops first; any such found."""
    found = False
    for loop in operations_in(main):
        if loop.name == "stablehlo.while" and not _has_effects(loop):
            found |= _prune(loop)
    return found


def _has_effects(operation: Any) -> bool:
    return any(
        op.name == "stablehlo.custom_call"
        and "has_side_effect" in op.attributes
        and ir.BoolAttr(op.attributes["has_side_effect"]).value
        for op in [operation, *operations_in(operation)]
    )


def _prune(loop: Any) -> bool:
    condition, body = (next(iter(region.blocks)) for region in loop.regions)
    end = list(body.operations)[-1]
    live = {i for i, r in enumerate(loop.results) if any(True for _ in r.uses)}
    live |= {i for i, a in enumerate(condition.arguments) if any(True for _ in a.uses)}
    arguments = {a: i for i, a in enumerate(body.arguments)}
    todo = list(live)
    while todo:
        for i in _carried(end.operands[todo.pop()], arguments):
            if i not in live:
                live.add(i)
                todo.append(i)
    dead = [i for i in range(len(loop.results)) if i not in live]
    for i in dead:
        end.operands[i] = body.arguments[i]
        with ir.InsertionPoint(loop):
            loop.operands[i] = _zeros(loop.operands[i].type)
    return bool(dead)


def _carried(value: Any, arguments: dict[Any, int]) -> set[int]:
    """The carried values that `value` depends on within the body."""
    found: set[int] = set()
    seen: set[Any] = set()
    todo = [value]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        if current in arguments:
            found.add(arguments[current])
        elif not isinstance(current.owner, ir.Block):
            todo += list(current.owner.operands)
            for inner in operations_in(current.owner) if len(current.owner.regions) else ():
                todo += list(inner.operands)
    return found


def _zeros(kind: Any) -> Any:
    """A value of zeros; of a type that has none, nothing is changed."""
    tensor = ir.RankedTensorType(kind)
    scalar = ir.RankedTensorType.get((), tensor.element_type)
    text = str(tensor.element_type)
    zero = "(0.0,0.0)" if text.startswith("complex") else "false" if text == "i1" else (
        "0.0" if text[0] in "fb" else "0")  # fmt: skip
    value = ir.Attribute.parse(f"dense<{zero}> : {scalar}")
    constant = ir.Operation.create(
        "stablehlo.constant", results=[scalar], attributes={"value": value}
    )
    return ir.Operation.create(
        "stablehlo.broadcast_in_dim",
        results=[kind],
        operands=[constant.result],
        attributes={"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])},
    ).result
