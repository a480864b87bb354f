"""Which programs of one name come from one function.

JAX names a program after its function, and all lambdas alike. Where a function is defined stands in
the places of its operations: the outermost frame within the call that traced it. Its first line tells
two functions of one name apart; but one function may trace other lines when an argument changes, which
JAX says: it had seen the function before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from vtpu.analysis.source_lines import SourceLine
from vtpu.program.locations import Frame, parse_location
from vtpu.recording.recording import FIRST_CALL, ProgramRecord, Recording

_FUNCTION = re.compile(r"jit\((.+?)\)(?:/|$)")


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a program's function is: file, name and first line that was traced; who called it."""

    definition: tuple[str, str, int] | None
    caller: tuple[str, int] | None
    is_new: bool  # JAX had not seen the function before
    has_reason: bool

    def is_same(self, other: _Origin) -> bool:
        """Whether both are the same definition by where they are."""
        if self.definition and other.definition:
            return self.definition == other.definition
        return self.caller == other.caller

    def was_seen_as(self, other: _Origin) -> bool:
        """Whether JAX took both for the same function."""
        if self.is_new:
            return False
        if self.definition and other.definition:
            return self.has_reason and self.definition[:2] == other.definition[:2]
        return True


def by_definition(recording: Recording) -> list[list[ProgramRecord]]:
    """The programs, those of one function together, in the order in which they first appeared."""
    by_name: dict[str, list[ProgramRecord]] = {}
    for program in recording.programs:
        by_name.setdefault(program.name, []).append(program)
    groups = [group for programs in by_name.values() for group in _split(programs, recording)]
    return sorted(groups, key=lambda group: group[0].number)


def definition_of(program: ProgramRecord) -> SourceLine | None:
    """Where the function of a program is: its first line that was traced; None if not known."""
    found = _definition(program.locations)
    return SourceLine(found[0], found[2], found[1]) if found else None


def is_operation(program: ProgramRecord) -> bool:
    """Whether a program is an operation of JAX's that ran outside jit, like `x + 1`: no function of the user's.

    JAX explains itself only for functions that are not its own, and none of these was traced.
    """
    return program.reason is None and not any(
        map(_names_its_function, dict.fromkeys(program.locations))
    )


def _names_its_function(text: str) -> bool:
    """Whether an operation stands in the function that its program is named after."""
    location = parse_location(text)
    function = _FUNCTION.match(location.names[0]) if location.names else None
    names = {frame.function.rsplit(".", 1)[-1] for frame in location.frames}
    return function is not None and function[1] in names


def _split(programs: list[ProgramRecord], recording: Recording) -> list[list[ProgramRecord]]:
    if len(programs) == 1:
        return [programs]
    groups: list[list[tuple[ProgramRecord, _Origin]]] = []
    for program in programs:
        origin = _origin(program, recording)
        same = [g for g in groups if any(origin.is_same(other) for _, other in g)]
        seen = [g for g in groups if any(origin.was_seen_as(other) for _, other in g)]
        if same or seen:
            (same or seen)[-1].append((program, origin))
        else:
            groups.append([(program, origin)])
    return [[program for program, _ in group] for group in groups]


def _origin(program: ProgramRecord, recording: Recording) -> _Origin:
    stack = recording.stack(program.stack)
    outside = [f for f in stack if not is_jax(f.file)]
    return _Origin(
        definition=_definition(program.locations),
        caller=(outside[0].file, outside[0].line) if outside else None,
        is_new=program.reason == FIRST_CALL,
        has_reason=program.reason is not None,
    )


def is_jax(file: str) -> bool:
    """Whether a file is JAX's own."""
    return "/jax/_src/" in file or "/jax/experimental/" in file


def _definition(locations: tuple[str, ...]) -> tuple[str, str, int] | None:
    """File, name and first line of the function that a program was traced from."""
    parsed = [parse_location(text) for text in dict.fromkeys(locations)]
    if not parsed:
        return None
    callers = parsed[0].frames  # the program's own place: where it was called
    found: list[Frame] = []
    for location in parsed[1:]:
        names = location.names
        function = _FUNCTION.match(names[0]) if names else None
        if frame := _outermost_within(location.frames, callers, function[1] if function else ""):
            found.append(frame)
    if not found:
        return None
    file, name = found[0].file, found[0].function
    return file, name, min(f.line for f in found if (f.file, f.function) == (file, name))


def _outermost_within(
    frames: tuple[Frame, ...], callers: tuple[Frame, ...], function: str
) -> Frame | None:
    """The frame of the traced function: the outermost that has its name, else before its caller's.

    JAX keeps a few frames only, so the caller's need not be there.
    """
    ends_with_caller = bool(callers) and frames[-len(callers) :] == callers
    inside = frames[: -len(callers)] if ends_with_caller else frames
    named = [f for f in inside if f.function.rsplit(".", 1)[-1] == function]
    if named:
        return named[-1]
    return inside[-1] if inside and ends_with_caller else None
