"""What the compiler says of the cases' functions on a virtual slice is what it says without one.

Arguments, outputs, donation, collectives and warnings are the same with every release of libtpu.
Temporaries and code differ between releases; where they do by more than the tolerances here,
`other_releases.toml` has the figures of that release, from JAX alone (see there).
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from answers import Case, all_cases, load_case
from running import Bench
from vtpu.compiler.service import libtpu_release
from vtpu.program.element_types import ElementType
from vtpu.program.layouts import logical_bytes, padded_bytes, parse_layout
from vtpu.units import KIB, MIB

COMPILE = Path(__file__).parents[1] / "compile_case.py"
MEASURED_WITH = "0.0.52"
OTHER_RELEASES = tomllib.loads(Path(__file__).with_name("other_releases.toml").read_text())
LONG_COMPILES = {"hbm-batch-not-monotone", "hbm-scan-over-layers", "remat-saved-dots"}

#: By field: the part of the expected value and the bytes by which another release may differ.
TOLERANCES = {
    "temp_bytes": (0.1, 64 * KIB),
    "peak_memory_bytes": (0.1, 0),
    "generated_code_bytes": (0.2, 2 * MIB),  # 0.0.52 counts 1 MiB more in every program
    "flops_by_cost_analysis": (0.01, 0),
}


def questions() -> list[Any]:
    """Each case with each topology that it was compiled for."""
    return [
        pytest.param(
            case,
            topology,
            id=f"{case.id}-{topology}",
            marks=[pytest.mark.slow] if case.id in LONG_COMPILES else [],
        )
        for case in all_cases()
        for topology in case.measured
    ]


@pytest.mark.parametrize(("case", "topology"), questions())
def test_the_compiler_gives_the_known_answers(bench: Bench, case: Case, topology: str) -> None:
    answers = compile_on_slice(bench, case, topology)
    for name, expected in case.measured[topology].items():
        if "error" in expected:
            assert_same_error(answers[name], expected)
        else:
            others = OTHER_RELEASES.get(libtpu_release(), {}).get(case.id, {}).get(name, {})
            assert_same_figures(answers[name], {**expected, **others}, name)
    temporaries = {name: answer.get("temp_bytes", 0) for name, answer in answers.items()}
    by_size = sorted(temporaries, key=temporaries.__getitem__)
    assert by_size == case.expected.get("order_small_to_large", by_size)
    if not case.expected.get("monotone", True):  # in the size of the batch
        assert by_size != list(temporaries)


def compile_on_slice(bench: Bench, case: Case, topology: str) -> dict[str, dict[str, Any]]:
    """What compiling the functions of a case on a virtual slice gives, by function."""
    names = case.measured[topology]
    run = bench.run(COMPILE, str(case.program), *names, on=topology)
    assert run.exit_code == 0, run.stderr
    assert run.stderr == ""
    lines = [line for line in run.printed.split("\n") if line.startswith("{")]
    return dict(zip(names, map(json.loads, lines), strict=True))


def assert_same_error(answer: dict[str, Any], expected: dict[str, Any]) -> None:
    """The error is the expected one but for the code before it and small numbers behind commas."""
    assert answer["error"] == expected["error"]
    words, sizes = split_sizes(answer["message"])
    expected_words, expected_sizes = split_sizes(expected["message"])
    assert " ".join(expected_words) in " ".join(words)
    assert answer["message"].startswith("RESOURCE_EXHAUSTED")
    assert sizes[: len(expected_sizes)] == pytest.approx(expected_sizes, rel=0.002)


def split_sizes(message: str) -> tuple[list[str], list[float]]:
    """The words of a message, sizes replaced, and the sizes that are in brackets or decimal."""
    words, sizes = [], []
    for word in message.split():
        text = word.strip("().")
        if text[:-1].replace(".", "", 1).isdigit() and text[-1] in "KMG":
            sizes.append(float(text[:-1]))
            words.append("<size>")
        else:
            words.append(word)
    return words, sizes


def assert_same_figures(answer: dict[str, Any], expected: dict[str, Any], name: str) -> None:
    """Each figure is the expected one, or within its tolerance with another release."""
    for field, value in expected.items():
        part, absolute = TOLERANCES.get(field, (0, 0))
        allowed = part * value + absolute if libtpu_release() != MEASURED_WITH else 0
        assert abs(answer[field] - value) <= allowed, (name, field, answer[field], value)


def test_padded_sizes_follow_from_layouts() -> None:
    case = load_case("pad-layouts-b")
    shapes = case.program.with_name("input.txt").read_text().split()
    assert [padded(shape) for shape in shapes] == case.expected["padded_bytes"]
    assert [unpadded(shape) for shape in shapes] == case.expected["unpadded_bytes"]


def padded(shape: str) -> int:
    element_type, dims, layout = taken_apart(shape)
    return padded_bytes(element_type, dims, parse_layout(layout))


def unpadded(shape: str) -> int:
    element_type, dims, _ = taken_apart(shape)
    return logical_bytes(element_type, dims)


def taken_apart(shape: str) -> tuple[ElementType, tuple[int, ...], str]:
    """`bf16[8,128]{1,0:T(8,128)(2,1)}` as element type, dimensions and layout."""
    name, _, rest = shape.partition("[")
    dims, _, layout = rest.partition("]")
    (element_type,) = (e for e in ElementType if e.xla_name == name)
    return element_type, tuple(map(int, filter(None, dims.split(",")))), layout
