"""Writes the parts of the documentation that follow from the code, and says what changed.

    python scripts/update_docs.py [--check]

`docs/json.md`: the fields of each schema. With `--check` nothing is written; the exit code is 1 when a
page is not up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from vtpu.report.json_output import RUN_BASIS, run_json_schema

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- fields of vtpu.run/1 -->", "<!-- end of fields -->"


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
    parts.append(f"### Basis\n\n| figures | come from |\n|---|---|\n{basis}\n")
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


def update(page: Path, text: str) -> tuple[str, str]:
    """The page before and after its generated part was replaced."""
    before = page.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return before, f"{head}{BEGIN}\n\n{text}\n{END}{tail}"


def main() -> None:
    """Updates the pages, or checks them."""
    page = DOCS / "json.md"
    before, after = update(page, render_fields(run_json_schema()))
    if before == after:
        return
    if "--check" in sys.argv:
        sys.exit(f"{page.name} is not up to date: run `python scripts/update_docs.py`")
    page.write_text(after, encoding="utf-8")
    print(f"updated {page.name}")


if __name__ == "__main__":
    main()
