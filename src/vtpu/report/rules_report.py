"""The catalogue of rules, and one rule at length."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.findings.rule import Group, Rule
from vtpu.report.document import Cell, Column, Document, Facts, Section, Table


def catalogue_document(rules: Iterable[Rule]) -> Document:
    """All rules by group."""
    known = list(rules)
    return Document("vtpu rules", tuple(_group(group, known) for group in Group))


def rule_document(rule: Rule) -> Document:
    """A rule: what it looks for, why that matters, what to do, what it does not see."""
    pairs: list[tuple[str, Cell]] = [
        ("what", rule.title),
        ("why", rule.why),
        ("change", rule.change),
        ("limits", rule.limits),
        ("looks at", _looks_at(rule)),
    ]
    if rule.fixes:
        pairs.append(("vtpu fix tries", ", ".join(rule.fixes)))
    return Document("vtpu rules", (Section(f"{rule.code} {rule.slug}", (Facts(tuple(pairs)),)),))


def _group(group: Group, rules: list[Rule]) -> Section:
    rows = tuple((r.code, r.slug, r.title) for r in rules if r.group is group)
    columns = (Column("code"), Column("rule"), Column("what it finds", wraps=True))
    return Section(str(group), (Table(columns, rows),))


def _looks_at(rule: Rule) -> str:
    where = [
        text
        for text, looks in (("compiled programs", rule.in_program), ("runs", rule.in_run))
        if looks
    ]
    return " and ".join(where)
