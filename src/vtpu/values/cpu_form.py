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
    main_of,
    operations_in,
    return_of,
    set_dictionaries,
    set_signature,
)
from vtpu.values.replacements import NoCpuForm, is_known_to_cpu, replacement_for

_SHARDINGS = ("mhlo.sharding", "sdy.sharding")
_PASSED_THROUGH = ("annotate_device_placement", "LayoutConstraint", "Pin", "Unpin")
_PYTHON_CALL = "xla_ffi_python_cpu_callback"


@dataclass(frozen=True, slots=True)
class HostCall:
    """One send or receive of a program; its number in the list is that of the Python function.

    `size`: bytes that are received. `knows_replica`: the first argument is the replica that calls.
    """

    channel: int
    is_send: bool
    shape: tuple[int, ...] = ()
    element: str = ""
    knows_replica: bool = False


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
        main = main_of(module)
        parameters, outputs = _clean_signature(main)
        calls = _HostCalls(num_replicas, with_host_calls)
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

    def __init__(self, num_replicas: int, is_wanted: bool) -> None:
        self.made: list[HostCall] = []
        self._num_replicas = num_replicas
        self._is_wanted = is_wanted

    def send(self, operation: Any) -> None:
        *values, token = operation.operands
        if not self._is_wanted:
            replace_with(operation, [token])
            return
        self.made.append(HostCall(_channel(operation), True, knows_replica=self._knows_replica))
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
            self.made.append(HostCall(channel, False, dims, element, self._knows_replica))
            call = self._call(operation, [token], [token.type, value.type])
            token = call.results[0]
            value.replace_all_uses_with(call.results[1])
        operation.results[len(values)].replace_all_uses_with(token)
        operation.erase()

    @property
    def _knows_replica(self) -> bool:
        return self._num_replicas > 1

    def _call(self, operation: Any, operands: list[Any], results: list[Any]) -> Any:
        with ir.InsertionPoint(operation):
            if self._knows_replica:
                kind = ir.RankedTensorType.get((), ir.IntegerType.get_unsigned(32))
                replica = ir.Operation.create("stablehlo.replica_id", results=[kind])
                operands = [*operands, replica.result]
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


def _row_major(types: list[Any]) -> ir.ArrayAttr:
    layouts = []
    for kind in types:
        rank = 0 if str(kind) == TOKEN else ir.RankedTensorType(kind).rank
        order = ", ".join(str(i) for i in reversed(range(rank)))
        text = f"dense<[{order}]> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"
        layouts.append(ir.Attribute.parse(text))
    return ir.ArrayAttr.get(layouts)


def _channel(operation: Any) -> int:
    text = str(operation.attributes["channel_handle"])  # #stablehlo.channel_handle<handle = 2, …>
    return int(text.split("handle = ")[1].split(",", maxsplit=1)[0])
