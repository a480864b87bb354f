"""A program for TPUs as a program for CPUs, changed in place.

What has no meaning on a CPU goes: memory kinds, layouts, donation, inspection. What the host does for
a program, which TPUs ask for by sending and receiving on channels, becomes a call of a Python function.
What only the TPU's compiler knows is replaced by what JAX itself gives a CPU (`replacements`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from vtpu.values.modules import (
    TOKEN,
    block_of,
    dictionaries,
    functions_of,
    main_of,
    name_of,
    operations_in,
    return_of,
    set_dictionaries,
    set_signature,
)
from vtpu.values.replacements import NoCpuForm, is_known_to_cpu, is_replaced, replacement_for

_SHARDINGS = ("mhlo.sharding", "sdy.sharding")
_PASSED_THROUGH = ("annotate_device_placement", "LayoutConstraint", "Pin", "Unpin")
_PYTHON_CALL = "xla_ffi_python_cpu_callback"


@dataclass(frozen=True, slots=True)
class HostCall:
    """One send or receive of a program; its number in the list is that of the Python function.

    `knows_device`: the last argument is the number of the device that calls; else it is the first.
    """

    channel: int
    is_send: bool
    shape: tuple[int, ...] = ()
    element: str = ""
    knows_device: bool = False


@dataclass(frozen=True, slots=True)
class CpuForm:
    """What remained: the numbers of the parameters and outputs, and the calls of the host."""

    parameters: tuple[int, ...]
    outputs: tuple[int, ...]
    host_calls: tuple[HostCall, ...]


def make_cpu_form(module: ir.Module, *, num_replicas: int, with_host_calls: bool) -> CpuForm:
    """Makes of `module` a program for CPUs.

    Without `with_host_calls` nothing is sent to the host any more; a program that receives from it
    then has no CPU form.

    Raises:
        NoCpuForm: it does what only TPUs can do.
    """
    with module.context, ir.Location.unknown():
        parameters, outputs = _clean_signature(main_of(module))
        _make_tokens_values(module)
        calls = _HostCalls(num_replicas, functions_on_each_device(module), with_host_calls)
        for operation in operations_in(module.operation):
            _rewrite(module, operation, calls)
        return CpuForm(parameters, outputs, tuple(calls.made))


def _clean_signature(main: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Takes tokens and what concerns devices from the signature; what is left of it."""
    block, end = block_of(main), return_of(main)
    arguments, results = list(block.arguments), list(end.operands)
    attributes = dictionaries(main, "arg_attrs", len(arguments))
    result_attributes = dictionaries(main, "res_attrs", len(results))
    parameters = tuple(i for i, a in enumerate(arguments) if str(a.type) != TOKEN)
    outputs = tuple(i for i, r in enumerate(results) if str(r.type) != TOKEN)
    if len(outputs) < len(results):
        with ir.InsertionPoint(end):
            ir.Operation.create("func.return", operands=[results[i] for i in outputs])
        end.operation.erase()
    for i in reversed(range(len(arguments))):
        if i not in parameters:
            with ir.InsertionPoint.at_block_begin(block):
                token = ir.Operation.create("stablehlo.create_token", results=[arguments[i].type])
            arguments[i].replace_all_uses_with(token.result)
            block.erase_argument(i)
    set_dictionaries(main, "arg_attrs", [_shardings_of(attributes[i]) for i in parameters])
    set_dictionaries(main, "res_attrs", [_shardings_of(result_attributes[i]) for i in outputs])
    set_signature(main)
    return parameters, outputs


def _make_tokens_values(module: ir.Module) -> None:
    """Makes numbers of tokens: XLA's CPU backend orders by data, not by tokens."""
    number = ir.RankedTensorType.get((), ir.IntegerType.get_signless(8))
    operations = operations_in(module.operation)
    for operation in operations:
        for value in [*operation.results, *_block_arguments(operation)]:
            if str(value.type) == TOKEN:
                value.set_type(number)
    for operation in operations:
        if operation.name == "stablehlo.create_token":
            replace_with(operation, [_zero(operation, number)])
        elif operation.name == "stablehlo.after_all":
            replace_with(operation, [_sum(operation, number)])
    for function in functions_of(module):
        set_signature(function)


def _block_arguments(operation: Any) -> list[Any]:
    return [a for region in operation.regions for block in region.blocks for a in block.arguments]


def _zero(before: Any, kind: Any) -> Any:
    with ir.InsertionPoint(before):
        value = ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, 0))
        return ir.Operation.create(
            "stablehlo.constant", results=[kind], attributes={"value": value}
        ).result


def _sum(operation: Any, kind: Any) -> Any:
    total = _zero(operation, kind)
    with ir.InsertionPoint(operation):
        for value in operation.operands:
            total = ir.Operation.create(
                "stablehlo.add", results=[kind], operands=[total, value]
            ).result
    return total


def _shardings_of(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name in _SHARDINGS}


def _rewrite(module: ir.Module, operation: Any, calls: _HostCalls) -> None:
    name = operation.name
    if name == "stablehlo.custom_call":
        _rewrite_call(module, operation)
    elif name == "stablehlo.send":
        calls.send(operation)
    elif name == "stablehlo.recv":
        calls.receive(operation)
    elif name == "stablehlo.composite" and is_replaced(operation):
        _replace_by_function(module, operation)
    elif "mhlo.frontend_attributes" in operation.attributes:
        _without_host_compute(operation)


def _without_host_compute(operation: Any) -> None:
    frontend = ir.DictAttr(operation.attributes["mhlo.frontend_attributes"])
    kept = {item.name: item.attr for item in frontend if item.name != "_xla_compute_type"}
    operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(kept)


def target_of(operation: Any) -> str:
    """What a custom call calls."""
    return ir.StringAttr(operation.attributes["call_target_name"]).value


def _rewrite_call(module: ir.Module, operation: Any) -> None:
    target = target_of(operation)
    if target in _PASSED_THROUGH:
        replace_with(operation, list(operation.operands))
    elif target == "InspectSharding":
        operation.erase()
    elif not is_known_to_cpu(target):
        _replace_by_function(module, operation)


def _replace_by_function(module: ir.Module, operation: Any) -> None:
    function = replacement_for(module, operation)
    with ir.InsertionPoint(operation):
        call = ir.Operation.create(
            "func.call",
            results=[r.type for r in operation.results],
            operands=list(operation.operands),
            attributes={"callee": ir.FlatSymbolRefAttr.get(function)},
        )
    replace_with(operation, list(call.results))


def replace_with(operation: Any, values: list[Any]) -> None:
    """Puts `values` in the place of an operation's results."""
    for result, value in zip(operation.results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


class _HostCalls:
    """Makes calls of Python functions out of sends and receives."""

    def __init__(self, num_replicas: int, on_each: set[str], is_wanted: bool) -> None:
        self.made: list[HostCall] = []
        self._num_replicas = num_replicas
        self._on_each = on_each
        self._is_wanted = is_wanted

    def send(self, operation: Any) -> None:
        *values, token = operation.operands
        if not self._is_wanted:
            replace_with(operation, [token])
            return
        self.made.append(
            HostCall(_channel(operation), True, knows_device=bool(self._caller(operation)))
        )
        call = self._call(operation, [token, *values], [token.type])
        replace_with(operation, [call.results[0]])

    def receive(self, operation: Any) -> None:
        if not self._is_wanted:
            raise NoCpuForm("it takes values from a host callback that ran before")
        (token,) = operation.operands
        *values, _ = operation.results
        for value in values:
            shape = ir.RankedTensorType(value.type)
            dims, element = tuple(shape.shape), str(shape.element_type)
            channel = _channel(operation)
            knows_device = bool(self._caller(operation))
            self.made.append(HostCall(channel, False, dims, element, knows_device))
            call = self._call(operation, [token], [token.type, value.type])
            token = call.results[0]
            value.replace_all_uses_with(call.results[1])
        operation.results[len(values)].replace_all_uses_with(token)
        operation.erase()

    def _caller(self, operation: Any) -> str | None:
        """The operation that gives the number of the device that calls, where several do."""
        if self._num_replicas > 1:
            return "stablehlo.replica_id"
        is_on_each = _is_on_each_device(operation, self._on_each)
        return "stablehlo.partition_id" if is_on_each else None

    def _call(self, operation: Any, operands: list[Any], results: list[Any]) -> Any:
        with ir.InsertionPoint(operation):
            if caller := self._caller(operation):
                kind = ir.RankedTensorType.get((), ir.IntegerType.get_unsigned(32))
                operands = [*operands, ir.Operation.create(caller, results=[kind]).result]
            attributes: dict[str, Any] = {
                "call_target_name": ir.StringAttr.get(_PYTHON_CALL),
                "has_side_effect": ir.BoolAttr.get(True),
                "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
                "backend_config": ir.Attribute.parse(f"{{index = {len(self.made) - 1} : ui64}}"),
                "operand_layouts": _row_major([v.type for v in operands]),
                "result_layouts": _row_major(results),
            }
            if "mhlo.sharding" in operation.attributes:
                attributes["mhlo.sharding"] = operation.attributes["mhlo.sharding"]
            if "sdy.sharding" in operation.attributes:  # one for each result; the token comes first
                given = sdy.TensorShardingPerValueAttr(operation.attributes["sdy.sharding"])
                shardings = list(given.shardings)[::-1]
                attributes["sdy.sharding"] = sdy.TensorShardingPerValueAttr.get(shardings)
            return ir.Operation.create(
                "stablehlo.custom_call", results=results, operands=operands, attributes=attributes
            )


def functions_on_each_device(module: ir.Module) -> set[str]:
    """The functions that run on each device by itself: those that manual computations call."""
    calls = [op for op in operations_in(module.operation) if op.name == "func.call"]
    found: set[str] = set()
    while True:
        called = {_callee(call) for call in calls if _is_on_each_device(call, found)}
        if called <= found:
            return found
        found |= called


def _callee(call: Any) -> str:
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def _is_on_each_device(operation: Any, functions: set[str]) -> bool:
    around = operation.parent
    while around is not None:
        if around.name == "sdy.manual_computation":
            return True
        if around.name == "func.func":
            return name_of(around) in functions
        around = around.parent
    return False


def _row_major(types: list[Any]) -> ir.ArrayAttr:
    layouts = []
    for kind in types:
        rank = ir.RankedTensorType(kind).rank
        order = ", ".join(str(i) for i in reversed(range(rank)))
        text = f"dense<[{order}]> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"
        layouts.append(ir.Attribute.parse(text))
    return ir.ArrayAttr.get(layouts)


def _channel(operation: Any) -> int:
    text = str(operation.attributes["channel_handle"])  # #stablehlo.channel_handle<handle = 2, …>
    return int(text.split("handle = ")[1].split(",", maxsplit=1)[0])
