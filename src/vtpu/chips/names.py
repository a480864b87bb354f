"""Reads the name of a slice in any dialect (`dialects`).

    text   = [N "*" | N "x"] body ["*" N]            case and surrounding blanks do not matter
    body   = word [separator (size | topology)]
    separator = one of : = / + , - _  with blanks around, or blanks

A name is understood completely or refused with the reason and the nearest legal names; nothing is
guessed and nothing but `UnknownSlice` is raised. A size or axis has at most six digits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod

from vtpu.chips.dialects import Word, words
from vtpu.chips.errors import UnknownSlice
from vtpu.chips.generations import Generation, Machine, Topology, all_generations, parse_topology
from vtpu.chips.shapes import (
    fit_axes,
    format_topology,
    machines_for,
    num_hosts_with,
    refusal,
    shapes_near,
)
from vtpu.chips.slices import Slice, slice_of

MAX_NUM_SLICES = 256
"""More slices than any public run has joined: 199 pods of v5e (Google Cloud, November 2023)."""

MAX_NEAREST = 4
"""How many near names a message lists."""

MAX_CHARACTERS = 100
"""Longer texts are refused unread; no name has half as many."""

_COUNT_FIRST = re.compile(r"([0-9]{1,6})\s*[*x]\s*(?=[a-z])")
_COUNT_LAST = re.compile(r"\s*\*\s*([0-9]{1,6})$")
_SEPARATOR = re.compile(r"\s*[:=/+,_-]\s*|\s+")
_TAIL = re.compile(r"[-:=/+,_\s]+[0-9x]+$")
_SIZE = re.compile(r"[0-9]{1,6}")
_TOPOLOGY = re.compile(r"([0-9]{1,6}(?:x[0-9]{1,6}){1,2})(?:_(twisted|untwisted))?")


class _Refused(Exception):
    """A name that is not understood: the reason, and near names where they follow from it."""

    def __init__(self, reason: str, nearest: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.nearest = nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    word: Word
    size: int | None = None
    topology: Topology | None = None
    is_twisted: bool = False


def parse_slice(text: str) -> Slice:
    """The slice that `text` names, in any dialect: `v5e-16`, `2*v5p:4x4x8`, `tpu-v6e-slice:2x4`.

    Raises:
        UnknownSlice: `text` names no slice; says why, and which names are near.
    """
    try:
        return _slice(text.strip().lower().replace("\N{MULTIPLICATION SIGN}", "x"))
    except _Refused as refused:
        raise UnknownSlice(text, refused.reason, refused.nearest) from None


def parse_generation(text: str) -> Generation:
    """The generation that `text` names: `v5e`, `v5litepod`, `ironwood`, `tpu7x`.

    Raises:
        UnknownSlice: there is no such generation; lists the near ones.
    """
    wanted = text.strip().lower()
    for generation in all_generations():
        if wanted in generation.names:
            return generation
    names = [name for generation in all_generations() for name in generation.names]
    near = get_close_matches(wanted[:MAX_CHARACTERS], names, n=MAX_NEAREST)
    raise UnknownSlice(text, "no TPU generation has this name", tuple(near))


def nearest(text: str) -> tuple[str, ...]:
    """The legal names closest to `text`; its canonical name alone where it names a slice."""
    try:
        return (parse_slice(text).name,)
    except UnknownSlice as unknown:
        return unknown.nearest


def _slice(text: str) -> Slice:
    if len(text) > MAX_CHARACTERS:
        raise _Refused(f"it has more than {MAX_CHARACTERS} characters")
    body, num_slices = _split_count(text)
    named = _named(body)
    topology = _topology(named)
    machine = _machine(named, topology)
    if not 1 <= num_slices <= MAX_NUM_SLICES:
        raise _Refused(f"there can be 1 to {MAX_NUM_SLICES} slices, not {num_slices:,}")
    return slice_of(named.word.generation, topology, machine=machine, num_slices=num_slices)


def _split_count(text: str) -> tuple[str, int]:
    if match := _COUNT_FIRST.match(text):
        return text[match.end() :], int(match[1])
    if match := _COUNT_LAST.search(text):
        return text[: match.start()], int(match[1])
    return text, 1


def _named(body: str) -> _Named:
    if not body:
        raise _Refused("it is empty")
    found = _split_word(body) or _split_word(re.sub(r"^tpu[-_\s]+", "", body))
    if not found:
        reason = "it starts with no TPU generation, GKE accelerator or machine type"
        raise _Refused(reason, _near_words(body))
    word, rest = found
    separator = _SEPARATOR.match(rest)
    rest = rest[separator.end() :] if separator else rest
    if not rest:
        return _Named(word=word)
    if _SIZE.fullmatch(rest):
        return _Named(word=word, size=int(rest))
    match = _TOPOLOGY.fullmatch(rest)
    if not match:
        reason = f"{rest!r} is neither a size nor a topology"
        raise _Refused(reason, _examples(word))
    twisted = match[2] == "twisted"
    return _Named(word=word, topology=parse_topology(match[1]), is_twisted=twisted)


def _split_word(body: str) -> tuple[Word, str] | None:
    """The longest word that starts `body` and ends there or before a separator; and the rest."""
    for word in words():
        rest = body.removeprefix(word.text)
        if body.startswith(word.text) and (not rest or _SEPARATOR.match(rest)):
            return word, rest
    return None


def _topology(named: _Named) -> Topology:
    word, generation = named.word, named.word.generation
    if named.size is not None:
        return _topology_of_size(word, named.size)
    if named.topology is None:
        if not word.stands_alone or word.machines is None:
            what = "a size or topology" if word.takes_size else "a topology"
            raise _Refused(f"{what} is missing", _examples(word))
        return word.machines[0].bounds[: generation.num_axes]
    topology = fit_axes(generation, named.topology)
    reason = refusal(generation, topology)
    if reason:
        raise _Refused(reason, _near_topologies(generation, topology))
    if named.is_twisted:
        plain = f"{generation.name}:{format_topology(topology)}"
        raise _Refused("vtpu has no twisted torus, only the plain one", (plain,))
    return topology


def _topology_of_size(word: Word, size: int) -> Topology:
    generation = word.generation
    if not word.takes_size:
        raise _Refused(f"a topology follows {word.text}, not a size", _examples(word))
    for shape in generation.shapes:
        if shape.size == size:
            return shape.topology
    below = [shape.name for shape in generation.shapes if shape.size < size]
    above = [shape.name for shape in generation.shapes if shape.size > size]
    unit = generation.counts.removesuffix("s") if size == 1 else generation.counts
    reason = f"{generation.name} has no slice of {size:,} {unit}"
    raise _Refused(reason, (*below[-1:], *above[:1]))


def _machine(named: _Named, topology: Topology) -> Machine | None:
    """The machine that the word asks for; None for the usual one."""
    word = named.word
    if word.machines is None:
        return None
    fitting = [m for m in machines_for(word.generation, topology) if m in word.machines]
    if fitting:
        return fitting[0]
    reason = f"{word.text} does not host a slice of {format_topology(topology)}"
    raise _Refused(reason, _examples(word))


def _near_words(body: str) -> tuple[str, ...]:
    """Legal names that begin with a word like that of `body`; those with its own ending first."""
    match = _TAIL.search(body)
    head, tail = (body[: match.start()], match[0]) if match else (body, "")
    texts = [word.text for word in words()]
    fitting: list[str] = []
    others: list[str] = []
    for text in get_close_matches(head, texts, n=MAX_NEAREST):
        try:
            _slice(text + tail)
        except _Refused as refused:
            others += refused.nearest
        else:
            fitting.append(text + tail)
    return tuple(dict.fromkeys(fitting + others))[:MAX_NEAREST]


def _near_topologies(generation: Generation, topology: Topology) -> tuple[str, ...]:
    ascending: Topology = tuple(sorted(topology))
    if refusal(generation, ascending) is None:
        return (f"{generation.name}:{format_topology(ascending)}",)
    near = shapes_near(generation, prod(topology))
    names = [f"{generation.name}:{format_topology(shape)}" for shape in near]
    largest = generation.shapes[-1].topology
    pods, rest = divmod(prod(topology), prod(largest))
    if near == (largest,) and not rest and 1 < pods <= MAX_NUM_SLICES:
        names.append(f"{pods}*{generation.name}:{format_topology(largest)}")
    return tuple(names)


def _examples(word: Word) -> tuple[str, ...]:
    """The smallest slices that the word can name."""
    generation = word.generation
    topologies = [shape.topology for shape in generation.shapes]
    if word.machines is not None:
        topologies = [t for t in topologies if _hosts(word.machines, t)]
    return tuple(f"{word.text}:{format_topology(t)}" for t in topologies[:MAX_NEAREST])


def _hosts(machines: tuple[Machine, ...], topology: Topology) -> bool:
    return any(num_hosts_with(machine, topology) is not None for machine in machines)
