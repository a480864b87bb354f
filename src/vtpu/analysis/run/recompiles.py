"""Why programs of one function were compiled again: what JAX says, or what comparing the programs shows.

JAX's words are those of `explain` and `diff_tracing_cache_keys` in jax-ml/jax
`jax/_src/interpreters/partial_eval.py` (jax 0.10.2 and 0.12.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vtpu.analysis.run.programs import Compilation, ProgramSummary
from vtpu.recording.recording import ProgramRecord, Recording


class Cause(StrEnum):
    """What was different."""

    SHAPE = "an argument of another shape"
    TYPE = "an argument of another type"
    WEAK_TYPE = "a Python number instead of an array, or the other way round"
    STATIC = "another value of a static argument"
    STRUCTURE = "arguments of another structure"
    SHARDING = "an argument that lies otherwise on the devices"
    NEW_FUNCTION = "a new function each time"
    X64 = "jax_enable_x64 was switched"
    CONTEXT = "another configuration"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one argument, as JAX says it. `argument` is its name, or its place in the call."""

    argument: str
    now: str
    before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompile:
    """A compilation that another one of the same function went before.

    `is_same_place`: the same call in the program led to an earlier one. `differences`: where JAX says
    them.
    """

    compilation: Compilation
    cause: Cause
    differences: tuple[Difference, ...]
    is_same_place: bool

    @property
    def seconds(self) -> float:
        """What compiling took, here or when the result was made."""
        return self.compilation.compile_s or 0.0


def recompiles_of(function: ProgramSummary, recording: Recording) -> tuple[Recompile, ...]:
    """All compilations of a function but the first. What did not compile is left out."""
    records = {p.number: p for p in recording.programs}
    done = [c for c in function.compilations if c.error is None]
    own = [records[c.program] for c in done]
    return tuple(_explain(done[i], own[i], own[:i]) for i in range(1, len(done)))


def _explain(
    compilation: Compilation, program: ProgramRecord, earlier: Sequence[ProgramRecord]
) -> Recompile:
    reason = compilation.reason or ""
    differences = tuple(_differences(reason))
    is_same_place = any(p.stack == program.stack for p in earlier)
    cause = _said(reason, differences) or _compared(program, earlier, is_same_place=is_same_place)
    return Recompile(
        compilation=compilation,
        cause=cause,
        differences=differences,
        is_same_place=is_same_place,
    )


# ---- what JAX says -----------------------------------------------------------------------------

_DIFFERENCE = re.compile(
    r"^\* (?:at (?:input path )?(?P<at>.+?), now|(?P<option>\w+) differs: now) (?P<now>.*?)"
    r" and before (?P<before>.*?)(?:, so .*|https://\S*)?$",
    re.MULTILINE,
)
_METADATA = re.compile(r"^<class '.*?'> with pytree metadata (?P<value>.*)$", re.DOTALL)
_STATIC = re.compile(r"^Static\(val=(?P<value>.*)\)$", re.DOTALL)
_CLASS = re.compile(r"<class '(?:[\w.<>]+\.)?(?P<name>\w+)'>")
_WEAK = re.compile(r"\{weak_type=\w+\}")
_ARRAY = re.compile(r"^(?P<type>\w+)\[(?P<dims>[^\]]*)\]")


def _differences(reason: str) -> Iterator[Difference]:
    for found in _DIFFERENCE.finditer(reason):
        now, before = _value(found["now"]), _value(found["before"])
        yield Difference(found["at"] or found["option"], now, before)


def _value(text: str) -> str:
    """A value without JAX's words around it."""
    for words in (_METADATA, _STATIC):
        if match := words.match(text):
            text = match["value"]
    if text == "pytree leaf" or "LeafMeta" in text:
        return "an array"
    return _CLASS.sub(lambda m: "None" if m["name"] == "NoneType" else m["name"], text)


def _said(reason: str, differences: Sequence[Difference]) -> Cause | None:
    if reason.startswith("another function defined on the same line"):
        return Cause.NEW_FUNCTION
    if reason.startswith("Tracing context"):
        is_x64 = any(d.argument == "jax_enable_x64" for d in differences)
        return Cause.X64 if is_x64 else Cause.CONTEXT
    if reason.startswith("different static arguments"):
        return Cause.STATIC
    if reason.startswith("different input pytree"):
        return Cause.STATIC if "with pytree metadata" in reason else Cause.STRUCTURE
    if reason.startswith("different input types"):
        return _of_types(differences)
    return None


def _of_types(differences: Sequence[Difference]) -> Cause:
    """The gravest: a shape, then a type, then a weak type, and where all are alike a sharding."""
    arrays = [(_array(d.now), _array(d.before)) for d in differences]
    known = [(now, before) for now, before in arrays if now and before]
    if any(now[1] != before[1] for now, before in known):
        return Cause.SHAPE
    if any(now[0] != before[0] for now, before in known):
        return Cause.TYPE
    if any(_WEAK.search(d.now) for d in differences):
        return Cause.WEAK_TYPE
    return Cause.SHARDING if known else Cause.UNKNOWN


def _array(text: str) -> tuple[str, str] | None:
    """Type and dimensions of `f32[4@data,8]`, without the mesh's axes."""
    match = _ARRAY.match(text)
    return (match["type"], re.sub(r"@[^,]*", "", match["dims"])) if match else None


# ---- what comparing shows ----------------------------------------------------------------------


def _compared(
    program: ProgramRecord, earlier: Sequence[ProgramRecord], *, is_same_place: bool
) -> Cause:
    if any(p.key == program.key for p in earlier):
        return Cause.NEW_FUNCTION if is_same_place else Cause.UNKNOWN
    if all(_shapes(p) != _shapes(program) for p in earlier):
        return Cause.SHAPE
    return Cause.UNKNOWN


def _shapes(program: ProgramRecord) -> list[tuple[int, ...]]:
    return [dims_of(text) for text in (*program.parameter_shapes, *program.output_shapes)]


def dims_of(text: str) -> tuple[int, ...]:
    """The dimensions of a shape as XLA prints it, `f32[8,16]{1,0:T(8,128)}`; none of what is no array."""
    match = _ARRAY.match(text)
    parts = match["dims"].split(",") if match and match["dims"] else []
    return tuple(int(part) for part in parts if part.isdigit())


# ---- sizes that change -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Varying:
    """One size that differs between the programs of a function.

    `places` are the arguments with the dimension that has it, (3, 1) for dimension 1 of argument 3;
    results are numbered after the arguments. `sizes` are those of the first of them, by program.
    """

    places: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]


def varying_size(programs: Sequence[ProgramRecord]) -> Varying | None:
    """The size in which programs differ; None: in none, or in several that do not go together."""
    parameters = [[dims_of(text) for text in p.parameter_shapes] for p in programs]
    results = [[dims_of(text) for text in p.output_shapes] for p in programs]
    found = _varying(parameters, 0)
    if found:
        return found
    is_alike = all(row == parameters[0] for row in parameters)
    return _varying(results, len(parameters[0])) if is_alike else None


def _varying(rows: Sequence[Sequence[tuple[int, ...]]], first: int) -> Varying | None:
    ranks = {tuple(len(dims) for dims in row) for row in rows}
    if len(ranks) != 1:
        return None
    columns = {
        (first + i, axis): tuple(row[i][axis] for row in rows)
        for i, rank in enumerate(ranks.pop())
        for axis in range(rank)
    }
    changing = {place: sizes for place, sizes in columns.items() if len(set(sizes)) > 1}
    if not changing:
        return None
    sizes = next(iter(changing.values()))
    goes_along = all(len({a - b for a, b in zip(sizes, s, strict=True)}) == 1 for s in changing.values())  # fmt: skip
    return Varying(places=tuple(changing), sizes=sizes) if goes_along else None
