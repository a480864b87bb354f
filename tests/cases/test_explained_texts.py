"""Messages of real failures through `vtpu explain`: the numbers of every case are in its answer."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from running import Bench
from vtpu.units import GIB, KIB, MIB

FOLDER = Path(__file__).with_name("oom_text")
NAMES = [path.parent.name for path in sorted(FOLDER.glob("*/case.toml"))]
UNITS = {"kib": KIB, "mib": MIB, "gib": GIB}
FIELDS = {"used": "asked", "required": "asked", "size": "asked", "limit": "limit", "over": "over"}


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """What one process says of all texts, by the names of their cases."""
    bench = Bench(tmp_path_factory.mktemp("explain"), environment)
    paths = [str(FOLDER / name / "input.txt") for name in NAMES]
    ended = bench.vtpu("explain", *paths, "--json", "-")
    assert (ended.exit_code, ended.stderr) == (0, "")
    explained = json.loads(ended.stdout)["explained"]
    assert [e["name"] for e in explained] == paths
    return dict(zip(NAMES, explained, strict=True))


def expected(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name / "case.toml").read_text()).get("expected", {})


@pytest.mark.parametrize("name", NAMES)
def test_each_text_has_its_messages_and_loses_no_line(
    answers: dict[str, dict[str, Any]], name: str
) -> None:
    answer = answers[name]
    assert answer["findings"]
    text = (FOLDER / name / "input.txt").read_text().split("\n")
    for number, line in answer["unknown"]:
        assert text[number - 1] == line
    known = {n for f in answer["findings"] for n in range(f["lines"][0], f["lines"][1] + 1)}
    unknown = {number for number, _ in answer["unknown"]}
    for number, line in enumerate(text, start=1):
        assert not line.strip() or number in known | unknown


@pytest.mark.parametrize("name", NAMES)
def test_what_was_asked_the_limit_and_the_excess_are_the_cases(
    answers: dict[str, dict[str, Any]], name: str
) -> None:
    wanted = expected(name)
    for key, value in wanted.items():
        stem, _, unit = key.rpartition("_")
        if stem not in FIELDS or unit not in UNITS:
            continue
        found = [f[FIELDS[stem]] or f["buffers"][0]["size"] for f in answers[name]["findings"]]
        assert any(
            abs(size["bytes"] - value * UNITS[unit]) <= size["rounding"] + 0.005 * UNITS[unit]
            for size in found
        ), (key, value, found)


@pytest.mark.parametrize("name", NAMES)
def test_codes_have_pages(answers: dict[str, dict[str, Any]], name: str) -> None:
    for finding in answers[name]["findings"]:
        if code := finding["code"]:
            assert finding["page"] == f"https://openxla.org/xla/errors/error_{code[1:]}"
    if code := expected(name).get("code"):
        assert code in {f["code"] for f in answers[name]["findings"]}
