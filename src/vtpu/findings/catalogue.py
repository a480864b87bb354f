"""All rules, by code."""

from __future__ import annotations

import importlib
import pkgutil
from difflib import get_close_matches
from functools import cache

from vtpu.errors import UsageError
from vtpu.findings import rules
from vtpu.findings.rule import Group, Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """The rules, by group and code: every module below `rules` holds one, called `RULE`."""
    found: list[Rule] = []
    for group in Group:
        package = importlib.import_module(f"{rules.__name__}.{group}")
        modules = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        found += [importlib.import_module(module.name).RULE for module in modules]
    order = list(Group)
    return tuple(sorted(found, key=lambda rule: (order.index(rule.group), rule.code)))


def find_rule(name: str) -> Rule:
    """The rule with a slug or code.

    Raises:
        UsageError: there is none.
    """
    for rule in all_rules():
        if name.lower() in (rule.slug, rule.code.lower()):
            return rule
    near = get_close_matches(name.lower(), [rule.slug for rule in all_rules()], 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(f"there is no rule {name!r}.{meant} `vtpu rules` lists them.")
