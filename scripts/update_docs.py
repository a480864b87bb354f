"""Writes the parts of the documentation that follow from the code, and says what changed.

    python scripts/update_docs.py [--check]

`docs/json.md`: the fields of each schema. `docs/rules/`: a page for each rule, with its examples. `docs/fix.md`:
the kinds of changes. With `--check` nothing is written; the exit code is 1 when a page is not up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from vtpu.changes.proposal import all_proposals
from vtpu.findings.catalogue import all_rules
from vtpu.findings.rule import Group, Rule
from vtpu.report.json_output import RUN_BASIS, run_json_schema

ROOT = Path(__file__).parents[1]
DOCS, EXAMPLES = ROOT / "docs", ROOT / "tests" / "findings" / "examples"
FIELDS = "<!-- fields of vtpu.run/1 -->", "<!-- end of fields -->"
KINDS = "<!-- kinds of changes -->", "<!-- end of kinds -->"


def render_fields(schema: dict[str, Any]) -> str:
    """The fields of a JSON schema as Markdown: a table for each kind of object."""
    parts = [_table("the report", schema["properties"])]
    parts += [
        _table(name, definition["properties"], definition.get("description", ""))
        for name, definition in schema["$defs"].items()
        if "properties" in definition
    ]
    parts += [
        f"### {name}\n\nOne of {', '.join(f'`{value}`' for value in definition['enum'])}.\n"
        for name, definition in schema["$defs"].items()
        if "enum" in definition
    ]
    basis = "\n".join(f"| `{path}` | {b} |" for path, b in RUN_BASIS.items())
    parts.append(f"### Where figures come from\n\n| figures | come from |\n|---|---|\n{basis}\n")
    return "\n".join(parts)


def _table(name: str, properties: dict[str, Any], text: str = "") -> str:
    rows = "\n".join(f"| `{field}` | {_type(kind)} |" for field, kind in properties.items())
    description = f"{' '.join(text.split())}\n\n" if text else ""
    return f"### {name}\n\n{description}| field | type |\n|---|---|\n{rows}\n"


def _type(kind: dict[str, Any]) -> str:
    if "const" in kind:
        return f"`{kind['const']}`"
    if "$ref" in kind:
        return str(kind["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in kind:
        return " or ".join(_type(k) for k in kind["anyOf"])
    if kind.get("type") == "array":
        return f"list of {_type(kind['items'])}" if "items" in kind else "list"
    return str(kind.get("type", "any"))


# ---- rules and changes -------------------------------------------------------------------------


def render_rule(rule: Rule) -> str:
    """The page of a rule."""
    fixes = ", ".join(f"`{kind}`" for kind in rule.fixes)
    parts = [
        f"# {rule.code} {rule.slug}",
        rule.title + ".",
        f"## Why it matters\n\n{rule.why}",
        f"## What to change\n\n{rule.change}",
        *([f"[`vtpu fix`](../fix.md) tries: {fixes}."] if fixes else []),
        f"## What it does not see\n\n{rule.limits}",
        f"## It fires\n\n{_example(rule, 'fires.py')}",
        f"## It is silent\n\n{_example(rule, 'silent.py')}",
    ]
    return "\n\n".join(parts) + "\n"


def _example(rule: Rule, name: str) -> str:
    text = (EXAMPLES / rule.slug / name).read_text(encoding="utf-8").strip()
    return f"```python\n{text}\n```"


def render_index() -> str:
    """The page that lists all rules."""
    text = "# The rules\n\nWhat `vtpu run` and `vtpu check` look for. See [findings](../findings.md).\n"
    for group in Group:
        rows = [r for r in all_rules() if r.group is group]
        lines = "\n".join(f"| {r.code} | [{r.slug}]({r.slug}.md) | {r.title} |" for r in rows)
        text += f"\n## {str(group).capitalize()}\n\n| code | rule | what it finds |\n|---|---|---|\n{lines}\n"
    pages = "\n".join(r.slug for r in all_rules())
    return f"{text}\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"


def render_kinds() -> str:
    """The kinds of changes as a table."""
    rows = "\n".join(
        f"| `{p.kind}` | {p.what} | {p.applies} | {p.numerics} |" for p in all_proposals()
    )
    return f"| kind | what it does | when it applies | results |\n|---|---|---|---|\n{rows}\n"


# ---- pages -------------------------------------------------------------------------------------


def replaced(page: Path, marks: tuple[str, str], text: str) -> str:
    """The page with its generated part replaced."""
    begin, end = marks
    head, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, tail = rest.partition(end)
    return f"{head}{begin}\n\n{text}\n{end}{tail}"


def all_pages() -> dict[Path, str]:
    """Every page that follows from the code, as it should be."""
    rules = DOCS / "rules"
    return {
        DOCS / "json.md": replaced(DOCS / "json.md", FIELDS, render_fields(run_json_schema())),
        DOCS / "fix.md": replaced(DOCS / "fix.md", KINDS, render_kinds()),
        rules / "index.md": render_index(),
        **{rules / f"{rule.slug}.md": render_rule(rule) for rule in all_rules()},
    }


def main() -> None:
    """Updates the pages, or checks them."""
    pages = all_pages()
    stale = [p for p, text in pages.items() if not p.exists() or p.read_text("utf-8") != text]
    stale += [p for p in (DOCS / "rules").glob("*.md") if p not in pages]
    if stale and "--check" in sys.argv:
        names = ", ".join(p.name for p in stale)
        sys.exit(f"not up to date: {names}. Run `python scripts/update_docs.py`")
    for page in stale:
        if page in pages:
            page.parent.mkdir(exist_ok=True)
            page.write_text(pages[page], encoding="utf-8")
        else:
            page.unlink()  # of a rule that is gone
        print(f"updated {page.name}")


if __name__ == "__main__":
    main()
