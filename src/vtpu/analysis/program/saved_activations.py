"""Activations that the forward pass keeps for the backward pass, and what `jax.checkpoint` could free.

A loop of JAX's (`lax.scan` over layers or time steps) keeps them stacked, `[steps, ...]`; layers that
are written out keep arrays of one shape each. What a checkpointed step keeps is its carry; the rest is
computed again. In loops of very many steps the carries themselves are the larger part, and checkpoints
within checkpoints keep about 2 * sqrt(steps) of them (Griewank and Walther, *Algorithm 799: revolve*,
2000, section 1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt

from vtpu.analysis.program.memory import MemoryItem, MemoryUsage
from vtpu.analysis.program.sources import source_of
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine, UserLines
from vtpu.program.memory import AllocationKind
from vtpu.program.modules import Instruction, Module
from vtpu.program.op_names import Phase, phase_of
from vtpu.program.shapes import ArrayShape, leaves
from vtpu.program.trip_counts import trip_count

MANY_STEPS = 64  # more are steps of time rather than layers
_SMALL = 0.01  # of all that layers keep
_CHECKPOINT = "checkpoint/"
_RECOMPUTED = "rematted_computation"
_HANDS_ON = ("get-tuple-element", "tuple")
_USERS = {
    Phase.FORWARD: (Phase.BACKWARD, Phase.RECOMPUTED),
    Phase.RECOMPUTED: (Phase.BACKWARD,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept for the backward pass, of loops at one line or of layers that are written out.

    `steps`: of all the loops together; of layers how many there seem to be. `loops`: 0 of layers.
    `carry_bytes`: what one checkpointed step would still keep. `is_checkpointed`: the backward pass comes
    from below a `jax.checkpoint`. `is_recomputed`: something is computed again there, for layers that are
    written out anywhere in the program.
    """

    items: tuple[MemoryItem, ...]
    line: SourceLine
    steps: int
    loops: int
    carry_bytes: int
    is_checkpointed: bool
    is_recomputed: bool

    @property
    def bytes(self) -> int:
        """Bytes that are kept at the peak."""
        return sum(item.bytes for item in self.items)

    @property
    def has_many_steps(self) -> bool:
        """Whether the carries of checkpointed steps would be many too."""
        return self.loops > 0 and self.steps >= MANY_STEPS

    @property
    def freed_bytes(self) -> int:
        """About what checkpoints would free, nested ones where there are many steps."""
        still = 2 * isqrt(self.steps) if self.has_many_steps else self.steps
        return max(0, self.bytes - self.carry_bytes * still)


def find_kept(
    module: Module, usage: MemoryUsage, lines: UserLines | None = None, phase: Phase = Phase.FORWARD
) -> tuple[Kept, ...]:
    """What HBM holds at the peak for the backward pass, by line; what keeps most first.

    `phase`: what was computed then; of what is recomputed, all at once and not in a loop.
    """
    if usage.hbm is None:
        return ()
    find = _Finder(module, usage, lines or UserLines())
    groups: dict[tuple[SourceLine, bool], list[_Use]] = defaultdict(list)
    for item in usage.hbm.at_peak():
        if (use := find.use(item, phase)) is not None:
            groups[use.line, use.loop is not None].append(use)
    found = (find.kept(line, uses) for (line, _), uses in groups.items())
    return tuple(sorted(found, key=lambda kept: -kept.bytes))


def is_recomputed_at_once(op_name: str) -> bool:
    """Whether an operation computes something again outside of loops over what is checkpointed."""
    before, again, _ = op_name.partition(_RECOMPUTED)
    return bool(again) and "/while/body/" not in before


@dataclass(frozen=True, slots=True)
class _Use:
    """An item and what the backward pass does with it: the loop that reads it step by step, if any."""

    item: MemoryItem
    user: Instruction
    loop: Instruction | None
    steps: int
    line: SourceLine


class _Finder:
    def __init__(self, module: Module, usage: MemoryUsage, lines: UserLines) -> None:
        self._module, self._lines = module, lines
        self._by_name = {i.name: i for _, i in module.program_order()}
        self._consumers = {number: i for _, i in module.program_order() for number in i.operands}
        self._order = usage.order
        self._steps: dict[int, int] = {}
        self._recomputes = any(_RECOMPUTED in i.op_name for i in module.by_id.values())

    def use(self, item: MemoryItem, phase: Phase) -> _Use | None:
        if item.occupant.kind is not AllocationKind.TEMP or item.shape is None:
            return None
        if phase_of(item.op_name) is not phase:
            return None
        if phase is Phase.RECOMPUTED and not is_recomputed_at_once(item.op_name):
            return None
        user = self._last_user(item)
        if user is None or self._phase_of_user(user) not in _USERS[phase]:
            return None
        if user.opcode == "while" and self._is_stacked(item.shape, user):
            source = source_of(self._module, user)
            return _Use(item, user, user, self._steps_of(user), self._lines.line(source.frames))
        return _Use(item, user, None, 0, UNKNOWN_LINE)

    def _last_user(self, item: MemoryItem) -> Instruction | None:
        """What uses it last. Where one loop's result is handed to the next, its memory may change its owner
        on the way: then that loop.
        """
        user = self._by_name.get(self._order[item.occupant.end])
        while user is not None and user.opcode in _HANDS_ON:
            user = self._consumers.get(user.id)
        return user

    def kept(self, line: SourceLine, uses: list[_Use]) -> Kept:
        loops = {use.loop.id: use.loop for use in uses if use.loop is not None}
        names = [name for use in uses for name in self._op_names(use.user)]
        items = tuple(use.item for use in uses)
        steps = sum(self._steps_of(loop) for loop in loops.values()) or _layers(items)
        return Kept(
            items=items,
            line=line if loops else _line_of_largest(items),
            steps=steps,
            loops=len(loops),
            carry_bytes=self._carry(loops.values(), items) if loops else _input_of_layer(items),
            is_checkpointed=any(_CHECKPOINT in name for name in names),
            is_recomputed=any(_RECOMPUTED in name for name in names) if loops else self._recomputes,
        )

    def _phase_of_user(self, user: Instruction) -> Phase:
        return phase_of(user.op_name or source_of(self._module, user).op_name)

    def _op_names(self, user: Instruction) -> Iterable[str]:
        """The paths of what a user does, also in the body of a loop and in fusions."""
        waiting, seen = [user], {user.id}
        for instruction in waiting:
            yield instruction.op_name
            for number in instruction.called:
                body = self._module.computations.get(number)
                new = [i for i in (body.instructions if body else ()) if i.id not in seen]
                seen.update(i.id for i in new)
                waiting += new

    def _steps_of(self, loop: Instruction) -> int:
        if loop.id not in self._steps:
            self._steps[loop.id] = trip_count(self._module, loop) or 0
        return self._steps[loop.id]

    def _is_stacked(self, shape: ArrayShape, loop: Instruction) -> bool:
        return len(shape.dims) > 1 and shape.dims[0] == self._steps_of(loop) > 1

    def _carry(self, loops: Iterable[Instruction], items: tuple[MemoryItem, ...]) -> int:
        """Bytes of what goes from step to step: in the loop backwards it has a gradient of its shape.

        Of what is stacked, that is the arrays whose steps have the shape of something that the loop
        hands on.
        """
        loop = next(iter(loops))
        handed_on = {s.dims for _, s in leaves(loop.shape) if isinstance(s, ArrayShape)}
        sizes: dict[tuple[int, ...], int] = {}
        for item in items:
            if item.shape and item.shape.dims[1:] in handed_on:
                size = item.bytes // item.shape.dims[0]
                dims = item.shape.dims[1:]
                sizes[dims] = min(size, sizes.get(dims, size))
        return sum(sizes.values())


def _layers(items: tuple[MemoryItem, ...]) -> int:
    """How many layers there are, as far as arrays of one shape from one line tell."""
    least = sum(item.bytes for item in items) * _SMALL
    counts: dict[tuple[str, SourceLine], int] = defaultdict(int)
    for item in items:
        if item.bytes >= least:
            counts[str(item.shape), item.line] += 1
    return max(counts.values(), default=1)


def _input_of_layer(items: tuple[MemoryItem, ...]) -> int:
    """Bytes of the smallest array that every layer keeps: its input, as far as can be told.

    The first one's may be an argument. Small arrays beside it are weights and statistics.
    """
    layers = _layers(items)
    least = sum(item.bytes for item in items) * _SMALL
    sizes: dict[str, list[int]] = defaultdict(list)
    for item in items:
        if item.bytes >= least:
            sizes[str(item.shape)].append(item.bytes)
    return min((found[0] for found in sizes.values() if len(found) >= layers - 1), default=0)


def _line_of_largest(items: tuple[MemoryItem, ...]) -> SourceLine:
    return max(items, key=lambda item: item.bytes).line
