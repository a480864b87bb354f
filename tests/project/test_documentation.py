"""The documentation says what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]


def test_generated_parts_are_up_to_date() -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "scripts/update_docs.py"), "--check"], check=True, cwd=ROOT
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    missing = [target for target in local if not (page.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "demo",
        "show",
        "check",
        "fix",
        "rules",
        "explain",
        "diff",
        "replay",
        "trace",
        "slices",
    ],
)
def test_every_option_of_a_command_is_documented(command: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "vtpu", command, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    options = set(re.findall(r"--[a-z][a-z-]*", ended.stdout)) - {"--help"}
    text = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert {option for option in options if option not in text} == set()


def test_every_setting_is_documented() -> None:
    code = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src/vtpu").rglob("*.py"))
    internal = {"VTPU_OUT_CLAIMED_BY"}  # from `vtpu run` to the process that it starts
    settings = set(re.findall(r"[\"']((?:VTPU)_[A-Z_]+)[\"']", code))
    text = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert settings > internal
    assert {setting for setting in settings - internal if setting not in text} == set()
