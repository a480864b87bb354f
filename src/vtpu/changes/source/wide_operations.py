"""What operations do with an array of rows that has a wide last axis: work on each row, or take something of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum, auto

from vtpu.analysis.source.files import SourceFile
from vtpu.changes.source.names import called

_SOFTMAX = ("jax.nn.log_softmax", "jax.nn.softmax", "jax.nn.standardize")
_LOGSUMEXP = ("jax.nn.logsumexp", "jax.scipy.special.logsumexp")
_ON_ELEMENTS = {
    *(f"jax.numpy.{n}" for n in ("exp", "log", "tanh", "where", "maximum", "minimum", "clip", "float32", "bfloat16",
                                 "abs", "square", "log1p", "expm1", "nan_to_num", "negative", "multiply", "add", "subtract")),
    *(f"jax.nn.{n}" for n in ("sigmoid", "log_sigmoid", "soft_sign", "relu", "gelu")),
    "jax.lax.stop_gradient", "jax.lax.optimization_barrier", "jax.lax.convert_element_type",
}  # fmt: skip
_SUMS = ("sum", "mean")
_REDUCTIONS = {*_SUMS, "max", "min", "argmax", "argmin", "amax"}
_OF_LABELS = {
    "optax.softmax_cross_entropy_with_integer_labels",
    "optax.losses.softmax_cross_entropy_with_integer_labels",
    "optax.softmax_cross_entropy",
    "optax.losses.softmax_cross_entropy",
}
_CHEAP = ("jax.nn.one_hot", "jax.numpy.arange", "len", "float", "int")
_WITH_AXIS = {*_REDUCTIONS, "logsumexp", "take_along_axis", "squeeze", "expand_dims"}
_ABOUT = ("shape", "dtype", "ndim", "size")
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


class Use(Enum):
    """How an expression is used."""

    WIDE = auto()  # the result is as wide
    ROWS = auto()  # the result has something of each row
    TOTAL = auto()  # the result is a sum or mean over everything
    CHOSEN = auto()  # the result is some of the rows
    ABOUT = auto()  # its shape or type
    WHOLE = auto()  # anything else


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Used:
    """The expression that uses another one, and how. `name` is that of the function, `labels` what tells what is
    taken of each row, `index` what chooses rows.
    """

    node: ast.AST
    use: Use
    name: str = ""
    labels: ast.expr | None = None
    index: ast.expr | None = None


def used_by(file: SourceFile, node: ast.expr) -> Used:
    """How the expression around one uses it."""
    parent = file.parents[node]
    if isinstance(parent, ast.keyword):
        parent = file.parents[parent]
    match parent:
        case ast.BinOp(op=op) if isinstance(op, _OPERATORS):
            return Used(node=parent, use=Use.WIDE)
        case ast.UnaryOp(op=ast.USub()):
            return Used(node=parent, use=Use.WIDE)
        case ast.Attribute(attr=attr):
            return _by_attribute(file, parent, attr)
        case ast.Subscript(value=value) if value is node:
            return _by_subscript(file, parent)
        case ast.Call() if parent.func is not node:
            return _by_call(file, parent, node)
        case _:
            return Used(node=parent, use=Use.WHOLE)


def axis_of(call: ast.Call, place: int) -> object:
    """The axis that a call names: an integer, None where it names none, a text where it is no number."""
    given = next((k.value for k in call.keywords if k.arg == "axis"), None)
    if given is None and len(call.args) > place:
        given = call.args[place]
    if given is None:
        return None
    try:
        return ast.literal_eval(given)
    except ValueError:
        return ast.unparse(given)


def is_on_rows(file: SourceFile, node: ast.expr) -> bool:
    """Whether an expression works on each row by itself: it takes no other rows, and sums over none."""
    return all(_may_stand(file, n) for n in ast.walk(node))


def _may_stand(file: SourceFile, node: ast.AST) -> bool:
    match node:
        case ast.Call():
            return _is_call_on_rows(file, node)
        case ast.Subscript(slice=index):
            return _is_index_on_rows(file, index)
        case ast.Attribute(attr=attr):
            return attr != "T"
        case ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.NamedExpr() | ast.Await():
            return False
        case _:
            return True


def _is_call_on_rows(file: SourceFile, call: ast.Call) -> bool:
    name = called(file, call)
    module, _, last = name.rpartition(".")
    if name in _ON_ELEMENTS or name in _OF_LABELS or name in _CHEAP:
        return True
    if name in _SOFTMAX:
        return axis_of(call, 1) in (None, -1)
    of_jax = module in ("jax.numpy", "jax.nn", "jax.scipy.special")
    place = (2 if last == "take_along_axis" else 1) if of_jax else 0
    if isinstance(call.func, ast.Attribute) and call.func.attr == "astype":
        return True
    last = call.func.attr if isinstance(call.func, ast.Attribute) else last
    return last in _WITH_AXIS and axis_of(call, place) == -1


def _is_index_on_rows(file: SourceFile, index: ast.expr) -> bool:
    """`[..., 0]`, `[:, None]`, `["w"]` and `[arange(n), labels]`."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    values = [p.value for p in parts if isinstance(p, ast.Constant)]
    is_each = called(file, parts[0]) == "jax.numpy.arange" and len(parts) == 2
    is_key = len(parts) == 1 and bool(values) and isinstance(values[0], str)
    return is_each or is_key or any(v is None or v is Ellipsis for v in values)


def _by_attribute(file: SourceFile, parent: ast.Attribute, attr: str) -> Used:
    if attr in _ABOUT:
        return Used(node=parent, use=Use.ABOUT)
    call = file.parents[parent]
    if not isinstance(call, ast.Call) or call.func is not parent:
        return Used(node=parent, use=Use.WHOLE)
    if attr == "astype":
        return Used(node=call, use=Use.WIDE, name=attr)
    return _reduced(call, attr, axis_of(call, 0))


def _by_call(file: SourceFile, call: ast.Call, node: ast.expr) -> Used:
    name = called(file, call)
    is_first = bool(call.args) and call.args[0] is node
    is_constrained = name == "jax.lax.with_sharding_constraint" and is_first
    if (
        name in _ON_ELEMENTS
        or is_constrained
        or (name in _SOFTMAX and axis_of(call, 1) in (None, -1))
    ):
        return Used(node=call, use=Use.WIDE, name=name)
    if name in _OF_LABELS:
        return Used(node=call, use=Use.ROWS, name=name, labels=_other(call, node))
    if not is_first:
        return Used(node=call, use=Use.WHOLE)
    return _by_first_argument(call, name)


def _by_first_argument(call: ast.Call, name: str) -> Used:
    if name in _LOGSUMEXP and axis_of(call, 1) == -1:
        return Used(node=call, use=Use.ROWS, name=name)
    if name == "jax.numpy.take_along_axis" and axis_of(call, 2) == -1:
        return Used(node=call, use=Use.ROWS, name=name, labels=_argument(call, 1, "indices"))
    if name == "jax.numpy.take" and axis_of(call, 2) == 0:
        return Used(node=call, use=Use.CHOSEN, index=_argument(call, 1, "indices"))
    module, _, function = name.rpartition(".")
    return _reduced(call, function if module == "jax.numpy" else "", axis_of(call, 1))


def _reduced(call: ast.Call, name: str, axis: object) -> Used:
    if name in _REDUCTIONS and axis == -1:
        return Used(node=call, use=Use.ROWS, name=name)
    if name in _SUMS and axis is None and not call.keywords:
        return Used(node=call, use=Use.TOTAL, name=name)
    return Used(node=call, use=Use.WHOLE)


def _by_subscript(file: SourceFile, parent: ast.Subscript) -> Used:
    """`x[arange(n), labels]` takes of each row, `x[last]` and `x[:, -1]` choose rows."""
    index = parent.slice
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    first = parts[0]
    is_each = isinstance(first, ast.Call) and called(file, first) == "jax.numpy.arange"
    if is_each and len(parts) == 2:
        return Used(node=parent, use=Use.ROWS, name="arange", labels=parts[1])
    is_new = any(isinstance(p, ast.Constant) and p.value is None for p in parts)
    is_open = any(isinstance(p, ast.Constant) and p.value is Ellipsis for p in parts)
    if is_new or (is_open and not _is_all(parts[-1])):
        return Used(node=parent, use=Use.WHOLE)
    return Used(node=parent, use=Use.CHOSEN, index=index)


def _is_all(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step)


def _argument(call: ast.Call, place: int, name: str) -> ast.expr | None:
    by_name = next((k.value for k in call.keywords if k.arg == name), None)
    return by_name or (call.args[place] if len(call.args) > place else None)


def _other(call: ast.Call, node: ast.expr) -> ast.expr | None:
    """The other argument of two."""
    values = [*call.args, *(k.value for k in call.keywords)]
    others = [v for v in values if v is not node]
    return others[0] if len(others) == 1 else None
