"""Options of the compiler for one function, from a list with sources."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping

from vtpu.changes.change import Change, NotApplicable, Numerics
from vtpu.changes.proposal import Proposal
from vtpu.changes.rewriting.flags import Flag, When, all_flags
from vtpu.changes.situation import Situation
from vtpu.changes.source.jit_sites import JitSite, is_jit_name
from vtpu.changes.source.names import qualified
from vtpu.findings.subjects import ProgramSubject
from vtpu.program.memory import MemorySpace
from vtpu.program.work.collectives import collective_in

KIND = "flags"
_ALGORITHM = "xla_tpu_buffer_assignment_algorithm"
_VMEM = "xla_tpu_scoped_vmem_limit_kib"
_KEYWORD = "compiler_options"
_LEAST_PRODUCTS = 0.3  # of the step
_VMEM_TO_LEAVE = 0.8  # of a chip's VMEM: the compiler needs some for what it prefetches


def propose(situation: Situation) -> Iterable[Change | NotApplicable]:
    """The flags that concern what the program has, and serve the goal."""
    site = situation.site
    if site is None or not _takes_options(site):
        where = (
            "the function is not jitted by `jax.jit`, or its `compiler_options` are not written out"
        )
        unknown = "where the function is jitted was not found"
        yield NotApplicable(kind=KIND, reason=unknown if site is None else where)
        return
    found = list(_changes(situation, site))
    yield from found
    if not found:
        yield NotApplicable(kind=KIND, reason=f"no flag of the list serves {situation.goal} here")


def _changes(situation: Situation, site: JitSite) -> Iterator[Change]:
    for flag in all_flags():
        if situation.goal not in flag.goals or not _CONDITIONS[flag.when](situation.program):
            continue
        for options in _values(flag, situation):
            yield Change(
                kind=KIND,
                title=f"{' '.join(f'{k}={_shown(v)}' for k, v in options.items())}",
                numerics=Numerics.TOLERANCE,
                edits=(site.with_keyword(_KEYWORD, _text({**(_options(site) or {}), **options})),),
                group=f"flag {next(iter(options))}",
                caution=f"{flag.what}; {flag.caution}. {flag.source}",
                expected_bytes=_saved_bytes(situation.program, flag),
            )


def _text(options: Mapping[str, object]) -> str:
    """Options as the code of a dictionary."""
    values = (f'"{v}"' if isinstance(v, str) else str(v) for v in options.values())
    entries = (f'"{name}": {value}' for name, value in zip(options, values, strict=True))
    return f"{{{', '.join(entries)}}}"


def _takes_options(site: JitSite) -> bool:
    """Whether it is `jax.jit`, and has no options that are not written out; those of Flax and Equinox take
    none.
    """
    node = site.node
    spelled = (node, getattr(node, "func", node), *getattr(node, "args", ()))
    names = [qualified(site.file, n) for n in spelled]
    is_jax = any(is_jit_name(n) and n.startswith("jax.") for n in names)
    return is_jax and _options(site) is not None


def _options(site: JitSite) -> dict[str, object] | None:
    """The options that are there; None where they are not written out."""
    there = site.keyword(_KEYWORD)
    try:
        return ast.literal_eval(there) or {} if there is not None else {}
    except ValueError:
        return None


def _values(flag: Flag, situation: Situation) -> Iterable[Mapping[str, str | int | bool]]:
    """What to try: of the algorithms the one that packs best, of VMEM what the chip has."""
    if flag.when is When.FRAGMENTATION:
        return [{_ALGORITHM: name} for name, _ in _packings(situation.program)]
    vmem = situation.slice.generation.chip.vmem_bytes_per_core.value
    return [v for v in flag.values if int(v.get(_VMEM, 0)) << 10 <= _VMEM_TO_LEAVE * vmem]


def _packings(program: ProgramSubject) -> list[tuple[str, int]]:
    """Algorithms that pack the heap in HBM better, with the bytes that they save."""
    heaps = [h.packed for h in program.report.heaps if h.color == MemorySpace.HBM and h.packed]
    found = [h.suggestion for h in heaps if h.suggestion]
    return [(str(s.algorithm), s.saved_bytes) for s in found]


def _saved_bytes(program: ProgramSubject, flag: Flag) -> float | None:
    return sum(b for _, b in _packings(program)) if flag.when is When.FRAGMENTATION else None


def _has_steps(program: ProgramSubject) -> bool:
    """Whether products are done in steps: the partitioner names their loops so."""
    computations = program.module.computations.values() if program.module else ()
    return any("windowed_dot_general" in c.name for c in computations)


def _has_collectives(program: ProgramSubject) -> bool:
    module = program.module
    return bool(module) and any(collective_in(module, i) for i in module.by_id.values())


def _has_products(program: ProgramSubject) -> bool:
    time = program.report.time
    rows = time.rows if time else ()
    products = sum(r.seconds for r in rows if r.op_name.rpartition("/")[2] == "dot_general")
    return products > _LEAST_PRODUCTS * (program.step_s or 0.0)


def _shown(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_CONDITIONS: Mapping[When, Callable[[ProgramSubject], bool]] = {
    When.FRAGMENTATION: lambda program: bool(_packings(program)),
    When.COLLECTIVE_MATMUL: _has_steps,
    When.COLLECTIVES: _has_collectives,
    When.PRODUCTS: _has_products,
}

PROPOSAL = Proposal(
    kind=KIND,
    what="`compiler_options` of `jax.jit`: the packing of the heap, collective matmuls, asynchronous "
    "collectives, scheduling for memory, the limit of scoped VMEM.",
    applies="The program has what a flag concerns: a heap that another algorithm packs better, products in "
    "steps, collectives, products that take much of the step.",
    numerics="Equal within tolerance: other schedules and fusions.",
    propose=propose,
)
