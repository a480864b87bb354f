"""What runs beside the core: which instruction begins it, and which one waits for its end.

As the clock takes it (`clock.schedule`): copies have a start and a done, collectives also as fusions that
begin, continue and end one, and what is in flight may be handed on in tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtpu.program.modules import Instruction, Module
from vtpu.program.work import Part, collective_in


@dataclass(frozen=True, slots=True)
class Flights:
    """`starts` begin something beside the core; `done_of` says which instruction waits for its end."""

    starts: frozenset[int] = frozenset()
    done_of: Mapping[int, int] = field(default_factory=dict[int, int])


def flights_of(module: Module) -> Flights:
    """What runs beside the core in a module."""
    starts: set[int] = set()
    done_of: dict[int, int] = {}
    for computation in module.computations.values():
        in_flight: dict[int, int] = {}  # by what hands it on: what began it
        for instruction in computation.instructions:
            part = _part(module, instruction)
            if part is Part.START:
                starts.add(instruction.id)
                in_flight[instruction.id] = instruction.id
            elif part in (Part.DONE, Part.CONTINUED):
                for source in _sources(module, instruction):
                    if source not in in_flight:
                        continue
                    begun = in_flight.pop(source)
                    if part is Part.DONE:
                        done_of[begun] = instruction.id
                    else:
                        in_flight[instruction.id] = begun
    return Flights(frozenset(starts), done_of)


def _part(module: Module, instruction: Instruction) -> Part | None:
    """What of something beside the core an instruction does, by its name or by what is in it."""
    endings = {"-start": Part.START, "-update": Part.CONTINUED, "-done": Part.DONE}
    named = next((part for end, part in endings.items() if instruction.opcode.endswith(end)), None)
    if named:
        return named
    found = collective_in(module, instruction)
    return found.part if found else None


def _sources(module: Module, instruction: Instruction) -> list[int]:
    """The instructions that make the operands, behind the tuples that they are handed on in."""
    return list(dict.fromkeys(_source(module, number) for number in instruction.operands))


def _source(module: Module, number: int) -> int:
    seen: set[int] = set()
    while number not in seen:  # a damaged module may go in a circle
        seen.add(number)
        instruction = module.by_id.get(number)
        if instruction is None or instruction.opcode != "get-tuple-element":
            break
        number = instruction.operands[0] if instruction.operands else number
    return number
