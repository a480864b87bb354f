"""The cases: small programs that show the symptom of a public report, with the right answers.

A case is a folder below `cases` with `case.toml` and `prog.py` (or `input.txt`). Its answers were
had from the compiler alone (libtpu 0.0.52) or by arithmetic; `case.toml` says which.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("cases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case: the slice it is for, its program, and what is known of it.

    `measured`: what the compiler said, by topology and then by the name of a function in the program.
    `breakdown`: of the memory that a program would have needed.
    """

    id: str
    topology: str
    program: Path
    expected: dict[str, Any]
    measured: dict[str, dict[str, dict[str, Any]]]
    breakdown: dict[str, Any]


def load_case(name: str) -> Case:
    """The case in a folder."""
    text = (FOLDER / name / "case.toml").read_text()
    fields = tomllib.loads(text)
    measured = fields.get("measured", {})
    return Case(
        id=fields["id"],
        topology=fields["topology"],
        program=FOLDER / name / "prog.py",
        expected=fields["expected"],
        measured={k: v for k, v in measured.items() if k != "cpu"},
        breakdown=fields.get("breakdown", {}),
    )


def all_cases() -> list[Case]:
    """Every case."""
    return [load_case(path.parent.name) for path in sorted(FOLDER.glob("*/case.toml"))]


def module_name(function: str) -> str:
    """How XLA names the program that a case calls `jit(step)`: `jit_step`."""
    inner = function.removeprefix("jit(").removesuffix(")")
    return "jit_" + inner.replace("<", "_").replace(">", "")
