"""An instruction as a line of HLO, and its category: what XProf shows beside an operation's time."""

from __future__ import annotations

from vtpu.program.modules import Instruction, Module
from vtpu.program.shapes import Shape

_LONGEST = 2000  # characters: a tuple of a whole model's arrays says no more in more
_FORMATTING = frozenset({"transpose", "copy", "reshape"})
#: As XLA's `HloInstruction::IsElementwise`.
_ELEMENTWISE = frozenset({
    "abs", "add", "and", "atan2", "bitcast-convert", "cbrt", "ceil", "clamp", "compare", "complex",
    "convert", "cosine", "count-leading-zeros", "divide", "erf", "exponential",
    "exponential-minus-one", "floor", "imag", "is-finite", "log", "log-plus-one", "logistic",
    "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real",
    "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select",
    "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt",
    "stochastic-convert", "subtract", "tan", "tanh", "xor",
})  # fmt: skip
_IN_FUSIONS = (  # what a fusion is named after, the first that is in it
    ("convolution", "convolution fusion"),
    ("dot", "convolution fusion"),
    ("all-reduce", "all-reduce fusion"),
    ("all-gather", "all-gather fusion"),
    ("reduce-scatter", "all-reduce-scatter fusion"),
    ("scatter", "scatter fusion"),
    ("gather", "gather fusion"),
)
_KINDS = {
    "kLoop": "loop fusion",
    "kInput": "input fusion",
    "kOutput": "output fusion",
    "kCustom": "custom fusion",
}


def category_of(module: Module, instruction: Instruction) -> str:
    """The category in XLA's words, as profiles of real TPUs have it: `loop fusion`, `copy-done`."""
    opcode = instruction.opcode
    if opcode == "fusion":
        inside = _opcodes_in(module, instruction)
        named = (name for inner, name in _IN_FUSIONS if inner in inside)
        return next(named, _KINDS.get(instruction.fusion_kind, "fusion"))
    if opcode in _FORMATTING:
        return "data formatting"
    return "non-fusion elementwise" if opcode in _ELEMENTWISE else opcode


def _opcodes_in(module: Module, instruction: Instruction) -> set[str]:
    """The opcodes in a fusion and in those in it."""
    found: set[str] = set()
    waiting, seen = list(instruction.called), set(instruction.called)
    for number in waiting:
        computation = module.computations.get(number)
        for inner in computation.instructions if computation else ():
            found.add(inner.opcode)
            new = [n for n in inner.called if n not in seen]
            seen.update(new)
            waiting += new
    return found


def hlo_text(module: Module, instruction: Instruction) -> str:
    """The instruction as HLO prints it, without its metadata: `%add.1 = f32[8] add(f32[8] %p.0, …)`."""
    operands = (module.by_id.get(number) for number in instruction.operands)
    inside = ", ".join(f"{shape_text(o.shape)} %{o.name}" for o in operands if o)
    text = f"%{instruction.name} = {shape_text(instruction.shape)} {instruction.opcode}({inside})"
    return _shortened(text + "".join(f", {part}" for part in _attributes(module, instruction)))


def _attributes(module: Module, instruction: Instruction) -> list[str]:
    called = [module.computations[n].name for n in instruction.called if n in module.computations]
    parts: list[str] = []
    if instruction.fusion_kind:
        parts.append(f"kind={instruction.fusion_kind}")
    if instruction.custom_call_target:
        parts.append(f'custom_call_target="{instruction.custom_call_target}"')
    if called:
        parts.append("calls=" + ", ".join(f"%{name}" for name in called))
    return parts


def shape_text(shape: Shape) -> str:
    """A shape as HLO prints it."""
    if isinstance(shape, tuple):
        return f"({', '.join(map(shape_text, shape))})"
    return str(shape) if shape else "opaque[]"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
