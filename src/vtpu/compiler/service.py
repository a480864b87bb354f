"""The compiler as the rest of vtpu sees it: questions whose answers come from the cache or a worker.

A program is known by its content: canonical code, compile options, topology, release of libtpu and
the flags that libtpu reads from the environment. What is known needs no libtpu at all.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vtpu.compiler.cache import ResultCache
from vtpu.compiler.pool import WorkerPool
from vtpu.compiler.results import (
    Compiled,
    DeviceFacts,
    Refusal,
    TopologyFacts,
    unpack,
)
from vtpu.reading.compile_options import dump_folder

FLAG_VARIABLES = ("LIBTPU_INIT_ARGS", "XLA_FLAGS")
"""What libtpu reads its flags from, once, when it is loaded."""

_PLACE = "loc("  # in messages about kernels: where the operation stands
_CANONICAL_FORM = 3  # grows when `canonical` changes: tables of the old form are not for the new


class CompilerRefused(Exception):
    """The compiler's own answer was an error, which `refusal` holds with what it left behind.

    `locations` are the places of the program text by operation number, as in `Source`.
    """

    def __init__(self, refusal: Refusal, locations: tuple[str, ...] = ()) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
        self.code = refusal.code
        self.locations = locations


@dataclass(frozen=True, slots=True)
class Topology:
    """What is compiled for: libtpu's name of a topology and its options."""

    name: str
    options: dict[str, Any]

    def __str__(self) -> str:
        return json.dumps([self.name, self.options], sort_keys=True)


@dataclass(frozen=True, slots=True)
class Program:
    """A program as JAX sends it: code (`mlir` or `hlo`), serialized compile options."""

    name: str
    code: bytes
    format: str
    options: bytes


@dataclass(frozen=True, slots=True)
class Source:
    """A program text: the hash of its canonical code, its places by operation number, its callbacks.

    `inspections` are addresses of the process that made the text; see `compiler.inspections`.
    """

    content: str
    locations: tuple[str, ...]
    inspections: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A compiled program with the key of its content and the places of the text it came from."""

    compiled: Compiled
    key: str
    source: Source
    from_cache: bool


def libtpu_release() -> str:
    """The version of the installed libtpu, or "none"."""
    try:
        return importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        return "none"


@dataclass(slots=True)
class CompilerService:
    """Answers about topologies, layouts and programs."""

    pool: WorkerPool
    cache: ResultCache
    _layouts: dict[str, dict[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    # ---- topologies ----

    def topology(self, topology: Topology) -> TopologyFacts:
        """What libtpu says of a topology.

        Raises:
            CompilerRefused: there is no such topology.
            CompilerDied, CompilerMissing: see `WorkerPool.ask`.
        """
        key = self._key("topology", str(topology))
        stored = self.cache.read("topologies", key)
        if stored is not None:
            return _decode_facts(stored)
        header, blobs = self._ask("topology", topology, {}, [], f"topology {topology.name}")
        data = json.dumps(header["facts"]).encode() + b"\n" + blobs[0]
        self.cache.write("topologies", key, data)
        return _decode_facts(data)

    # ---- layouts ----

    def default_layout(
        self, topology: Topology, device_kind: str, element_type: int, dims: tuple[int, ...]
    ) -> str:
        """The layout of an array that asks for none, as XLA prints it. Known per kind of chip.

        Raises:
            CompilerRefused: the type has no layout.
            CompilerDied, CompilerMissing: see `WorkerPool.ask`.
        """
        name = f"layouts-{libtpu_release()}-{device_kind.replace(' ', '_')}"
        shape = f"{element_type} {','.join(map(str, dims))}"
        known = self._known_layouts(name)
        if shape not in known:
            fields = {"element_type": element_type, "dims": dims}
            header, _ = self._ask("layout", topology, fields, [], "a default layout")
            known[shape] = header["layout"]
            self.cache.append_line(name, f"{shape} {header['layout']}")
        return known[shape]

    def _known_layouts(self, name: str) -> dict[str, str]:
        with self._lock:
            if name not in self._layouts:
                lines = [line.split(" ") for line in self.cache.read_lines(name)]
                self._layouts[name] = {
                    f"{parts[0]} {parts[1]}": parts[2] for parts in lines if len(parts) == 3
                }
            return self._layouts[name]

    # ---- programs ----

    def compile(
        self, program: Program, topology: Topology, poll: Callable[[], None] = lambda: None
    ) -> Answer:
        """The compiled program, from the cache or from libtpu.

        One whose compile the user wants to be dumped is compiled each time, places and all: the
        user's lines belong in the dump.

        Raises:
            CompilerRefused: the program does not compile (out of memory, for one).
            CompilerDied, CompilerMissing: see `WorkerPool.ask`.
        """
        source, code = self._source(program)
        key = self._key("program", str(topology), program.format, source.content, program.options)
        if dump_folder(program.options) and not source.inspections:
            compiled = _accept(unpack(self._compile(program, program.code, topology, poll)))
            return Answer(compiled, key, Source(source.content, ()), from_cache=False)
        try:
            compiled, is_known = self._result(key, program, code, topology, poll)
        except CompilerRefused as refused:
            if _PLACE in str(refused) and not source.inspections:
                self._refuse_with_places(program, topology, poll)
            raise CompilerRefused(refused.refusal, source.locations) from None
        return Answer(compiled, key, source, is_known)

    def _result(
        self,
        key: str,
        program: Program,
        code: bytes | None,
        topology: Topology,
        poll: Callable[[], None],
    ) -> tuple[Compiled, bool]:
        """The result of `code`, by default the program's canonical code, and whether it was known."""
        if (known := self._known_result(key)) is not None:
            return _accept(known), True
        if code is None:
            code = _canonical(program)[0]
        result = self._compile(program, code, topology, poll)
        self.cache.write("programs", key, result)
        return _accept(unpack(result)), False

    def _compile(
        self, program: Program, code: bytes, topology: Topology, poll: Callable[[], None]
    ) -> bytes:
        """What libtpu makes of `code`, packed: a program or a refusal."""
        what = f"compiling {program.name} for {topology.name}"
        blobs = [code, program.options]
        _, answer = self._ask("compile", topology, {"format": program.format}, blobs, what, poll)
        return answer[0]

    def _refuse_with_places(
        self, program: Program, topology: Topology, poll: Callable[[], None]
    ) -> None:
        """Raises a refusal of this very text: JAX looks for the user's lines in the message."""
        key = self._key("text", str(topology), program.format, program.code, program.options)
        self._result(key, program, program.code, topology, poll)

    def _known_result(self, key: str) -> Compiled | Refusal | None:
        stored = self.cache.read("programs", key)
        if stored is None:
            return None
        try:
            return unpack(stored)
        except (ValueError, KeyError):  # a damaged file: as if it were not there
            return None

    def _source(self, program: Program) -> tuple[Source, bytes | None]:
        """The source of a program text; its canonical code only when that had to be made."""
        text_key = hashlib.sha256(
            f"{_CANONICAL_FORM} {program.format}\n".encode() + program.code
        ).hexdigest()
        stored = self.cache.read("texts", text_key)
        if stored is not None:
            return _decode_source(stored), None
        code, source = _canonical(program)
        self.cache.write("texts", text_key, _encode_source(source))
        return source, code

    def _key(self, *parts: str | bytes) -> str:
        flags = [f"{v}={self.pool.environment.get(v, '')}" for v in FLAG_VARIABLES]
        digest = hashlib.sha256()
        for part in (libtpu_release(), *flags, *parts):
            data = part if isinstance(part, bytes) else part.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()

    def _ask(
        self,
        ask: str,
        topology: Topology,
        fields: dict[str, Any],
        blobs: list[bytes],
        what: str,
        poll: Callable[[], None] = lambda: None,
    ) -> tuple[dict[str, Any], list[bytes]]:
        request = {"ask": ask, "topology": topology.name, "options": topology.options, **fields}
        header, answer = self.pool.ask(request, blobs, what, poll)
        if "refused" in header:
            raise CompilerRefused(Refusal(code=header["code"], message=header["refused"]))
        return header, answer


def _canonical(program: Program) -> tuple[bytes, Source]:
    """A program's code without places, and its source. Other formats keep their places."""
    as_it_is = (program.code, Source(hashlib.sha256(program.code).hexdigest(), ()))
    if program.format != "mlir":
        return as_it_is
    from vtpu.compiler.canonical import canonicalize  # needs jaxlib's MLIR, which is slow to load

    try:
        canonical = canonicalize(program.code)
    except ValueError:  # a dialect that jaxlib does not know: compiled as it is, places and all
        return as_it_is
    content = hashlib.sha256(canonical.code).hexdigest()
    return canonical.code, Source(content, canonical.locations, canonical.inspections)


def _encode_source(source: Source) -> bytes:
    """A source as bytes; most operations share their place with others."""
    unique = list(dict.fromkeys(source.locations))
    index = {text: i for i, text in enumerate(unique)}
    numbers = [index[text] for text in source.locations]
    value = [source.content, unique, numbers, [i.hex() for i in source.inspections]]
    return zlib.compress(json.dumps(value).encode(), 1)


def _decode_source(data: bytes) -> Source:
    content, unique, numbers, inspections = json.loads(zlib.decompress(data))
    locations = tuple(unique[i] for i in numbers)
    return Source(content, locations, tuple(map(bytes.fromhex, inspections)))


def _accept(result: Compiled | Refusal) -> Compiled:
    if isinstance(result, Refusal):
        raise CompilerRefused(result)
    return result


def _decode_facts(data: bytes) -> TopologyFacts:
    text, _, serialized = data.partition(b"\n")
    fields = json.loads(text)
    fields["devices"] = tuple(DeviceFacts(**d) for d in fields["devices"])
    for name in ("stablehlo_current", "stablehlo_minimum"):
        fields[name] = tuple(fields[name])
    return TopologyFacts(**fields, serialized=serialized)
