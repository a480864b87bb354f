"""The programs of `benchmarks/fixes`: what they say of themselves is so."""

import ast
import tomllib

import pytest
from benchmarks.fixes.remat import NO_CHECKPOINT, POLICIES, Point, checkpointed, pareto
from benchmarks.fixes.suite import PROGRAMS, Program, load_program, load_programs

from vtpu.changes.proposal import all_proposals
from vtpu.chips import parse_slice
from vtpu.findings.catalogue import all_rules

NAMES = [program.name for program in load_programs()]
KEYS = {"title", "kind", "slice", "target", "search", "memory_bound", "remat_exhaustive", "block", "fixes", "planted"}  # fmt: skip
KINDS = {proposal.kind for proposal in all_proposals()}


@pytest.fixture(params=NAMES)
def program(request):
    return load_program(request.param)


def source(program: Program, twin: str) -> ast.Module:
    return ast.parse((program.folder / f"{twin}.py").read_text(encoding="utf-8"))


def function(module: ast.Module, name: str) -> ast.FunctionDef:
    return next(n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == name)


def test_there_are_enough_programs():
    assert len(NAMES) >= 12
    assert sum(load_program(name).is_memory_bound for name in NAMES) >= 7


def test_each_folder_says_what_its_program_is(program):
    table = tomllib.loads((PROGRAMS / program.name / "program.toml").read_text(encoding="utf-8"))
    assert table.keys() <= KEYS
    assert program.title
    assert program.kind in ("training", "serving")
    assert parse_slice(program.slice).name == program.slice
    assert 2 <= len(program.planted) <= 4
    assert all(program.planted.values())


def test_planted_faults_have_rules(program):
    assert program.planted.keys() <= {rule.slug for rule in all_rules()}


def test_changes_that_should_help_are_kinds_of_changes(program):
    assert set(program.fixes) <= KINDS


@pytest.mark.parametrize("twin", ["faulty", "clean"])
def test_targets_are_there(program, twin):
    names = {n.name for n in source(program, twin).body if isinstance(n, ast.FunctionDef)}
    for target in (program.target, program.search):
        file, _, name = target.partition(":")
        assert file == "faulty.py"
        assert (name or "main") in names


def test_twins_take_the_same_arguments(program):
    faulty, clean = (function(source(program, twin), "step") for twin in ("faulty", "clean"))
    assert [a.arg for a in faulty.args.args] == [a.arg for a in clean.args.args]


def test_twins_differ(program):
    faulty, clean = (ast.dump(source(program, twin)) for twin in ("faulty", "clean"))
    assert faulty != clean


def test_a_block_is_checkpointed_with_each_policy(program):
    if not program.block:
        return
    text = (program.folder / "faulty.py").read_text(encoding="utf-8")
    for policy in POLICIES:
        changed = checkpointed(text, program.block, policy)
        ast.parse(changed)
        assert (changed != text) is (policy != NO_CHECKPOINT)


def test_what_needs_more_memory_and_more_time_is_not_on_the_front():
    fast, small, bad = (
        Point(name=n, peak_bytes=p, step_s=s)
        for n, p, s in (("fast", 9, 1.0), ("small", 3, 2.0), ("bad", 5, 3.0))
    )
    assert pareto([bad, small, fast]) == [fast, small]


def test_the_readme_says_what_is_planted(program):
    text = (PROGRAMS.parent / "README.md").read_text(encoding="utf-8")
    section = text.partition(f"### `{program.name}`\n")[2].partition("\n### ")[0]
    assert program.title in section
    assert all(f"* `{slug}`: {what}" in section for slug, what in program.planted.items())
