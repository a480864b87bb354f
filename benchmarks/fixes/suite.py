"""The programs of the suite."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
FAULTY, CLEAN = "faulty", "clean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program and what is wrong with it.

    `target` is what is checked (`faulty.py:step`) or run (`faulty.py`), `search` what `vtpu fix` is asked to
    improve. `planted` says by slugs of rules what the faults are, `fixes` which kinds of changes should help.
    `is_memory_bound`: its peak can be halved. `block` is the function that is checkpointed with each named
    policy, where that is tried exhaustively; empty elsewhere.
    """

    name: str
    title: str
    kind: str
    slice: str
    target: str
    search: str
    planted: Mapping[str, str]
    fixes: tuple[str, ...]
    is_memory_bound: bool
    block: str

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return PROGRAMS / self.name

    @property
    def clean_target(self) -> str:
        """The target of the clean twin."""
        return self.target.replace(FAULTY, CLEAN, 1)


def load_programs(only: Sequence[str] = ()) -> list[Program]:
    """All programs, or those with the names given.

    Raises:
        SystemExit: there is no program of a name.
    """
    names = sorted(p.parent.name for p in PROGRAMS.glob("*/program.toml"))
    if unknown := [name for name in only if name not in names]:
        raise SystemExit(f"there is no program {', '.join(unknown)}; there are {', '.join(names)}")
    return [load_program(name) for name in names if not only or name in only]


def load_program(name: str) -> Program:
    """One program."""
    table = tomllib.loads((PROGRAMS / name / "program.toml").read_text(encoding="utf-8"))
    target = table.pop("target")
    is_exhaustive = table.pop("remat_exhaustive", False)
    block = table.pop("block", "")
    return Program(
        name=name,
        target=target,
        search=table.pop("search", target),
        is_memory_bound=table.pop("memory_bound"),
        fixes=tuple(table.pop("fixes")),
        block=block if is_exhaustive else "",
        **table,
    )
