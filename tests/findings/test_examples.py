"""Every rule finds its example and is silent on the near miss beside it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from running import Bench
from vtpu.findings.catalogue import all_rules
from vtpu.findings.search import FAILED

EXAMPLES = Path(__file__).parent / "examples"
SLUGS = [rule.slug for rule in all_rules()]


def examples(kind: str) -> list[str]:
    """`slug/fires.py` of each rule, and the other examples of that kind beside it."""
    assert all((EXAMPLES / slug / f"{kind}.py").exists() for slug in SLUGS)
    return [
        str(p.relative_to(EXAMPLES))
        for s in SLUGS
        for p in sorted((EXAMPLES / s).glob(f"{kind}*.py"))
    ]


def found_in(bench: Bench, example: Path) -> list[dict[str, Any]]:
    """What the command on an example's first line finds: `# vtpu check fires.py:step --on v5e:1x1`."""
    command = shlex.split(example.read_text(encoding="utf-8").partition("\n")[0])[1:]
    assert command[0] == "vtpu"
    for file in example.parent.iterdir():
        if file.is_file():
            (bench.folder / file.name).write_bytes(file.read_bytes())
    report = bench.folder / "report.json"
    done = bench.vtpu(command[1], "--json", str(report), *command[2:])
    assert report.exists(), done.stderr
    found = json.loads(report.read_text(encoding="utf-8"))["findings"]
    assert not [f for f in found if f["title"].startswith(FAILED)]
    return found


@pytest.mark.parametrize("example", examples("fires"))
def test_the_rule_finds_its_example(bench: Bench, example: str) -> None:
    path = EXAMPLES / example
    found = [f for f in found_in(bench, path) if f["rule"] == path.parent.name]
    assert found
    assert any(f["severity"] != "note" for f in found)
    assert all(f["evidence"] and f["change"] for f in found)


@pytest.mark.parametrize("example", examples("silent"))
def test_the_rule_is_silent_on_the_near_miss(bench: Bench, example: str) -> None:
    path = EXAMPLES / example
    found = [f for f in found_in(bench, path) if f["rule"] == path.parent.name]
    assert all(f["severity"] == "note" for f in found), found
