"""`vtpu rules`: the faults that vtpu knows, and one of them at length."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def rules_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[SLUG]", help="A rule, by its slug or code: `not-donated`, `M101`."
        ),
    ] = None,
) -> None:
    """List the rules that findings come from, or explain one."""
    from vtpu.findings.catalogue import all_rules, find_rule
    from vtpu.report.rules_report import catalogue_document, rule_document
    from vtpu.report.text import print_document

    document = rule_document(find_rule(name)) if name else catalogue_document(all_rules())
    print_document(document, sys.stdout)
