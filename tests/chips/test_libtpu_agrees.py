"""What the room says of slices, asked of libtpu itself, in child processes that may die.

Each child takes many names, so a run costs seconds; a child that dies is the answer to the name it
held, and another takes the rest. Run as a script to see the answers:
`python tests/chips/test_libtpu_agrees.py v5e:4x4`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from vtpu.chips import (
    Slice,
    all_generations,
    all_slices,
    generation_named,
    machines_for,
    parse_slice,
    slice_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (importlib.util.find_spec("libtpu") and importlib.util.find_spec("jax")),
        reason="needs jax and libtpu",
    ),
]

ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_LOG_DIR": "disabled",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "JAX_PLATFORMS": "cpu",
}
TIMEOUT_S = 300.0

CHILD = """
import collections, json, sys
from jax.experimental import topologies

for line in sys.stdin:
    name, options = json.loads(line)
    print("?", flush=True)
    try:
        devices = topologies.get_topology_desc(
            platform="tpu", topology_name=name, **options).devices
        hosts = collections.Counter(device.process_index for device in devices)
        answer = {
            "devices": len(devices),
            "hosts": len(hosts),
            "devices_per_host": sorted(set(hosts.values())),
            "slices": len({getattr(device, "slice_index", 0) for device in devices}),
            "device_kind": devices[0].device_kind,
        }
    except Exception as error:
        answer = {"refused": str(error)}
    print("!" + json.dumps(answer), flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What libtpu made of one topology: devices and hosts, a refusal, or the child's death."""

    devices: int = 0
    hosts: int = 0
    devices_per_host: tuple[int, ...] = ()
    slices: int = 0
    device_kind: str = ""
    refused: str = ""
    died: int = 0


Question = tuple[str, dict[str, object]]


def ask_libtpu(questions: Sequence[Question]) -> list[Answer]:
    """The answers in order; a child that dies answers the question it held with its exit status."""
    answers: list[Answer] = []
    while len(answers) < len(questions):
        rest = questions[len(answers) :]
        child = subprocess.run(
            [sys.executable, "-c", CHILD],
            input="".join(json.dumps(question) + "\n" for question in rest),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, **ENVIRONMENT},
            check=False,
        )
        lines = child.stdout.splitlines()
        answers += [_answer(json.loads(line[1:])) for line in lines if line.startswith("!")]
        if len(answers) < len(questions):
            assert child.returncode, child.stderr
            assert "?" in lines, f"the child could not start: {child.stderr[-2000:]}"
            answers.append(Answer(died=child.returncode))
    return answers


def _answer(table: dict[str, object]) -> Answer:
    per_host = table.pop("devices_per_host", [])
    assert isinstance(per_host, list)
    return Answer(devices_per_host=tuple(per_host), **table)  # type: ignore[arg-type] - CHILD's own


def question_of(found: Slice) -> Question:
    return found.libtpu_name, dict(found.libtpu_options)


def expected_of(found: Slice) -> Answer:
    return Answer(
        devices=found.num_devices,
        hosts=found.num_hosts,
        devices_per_host=(found.devices_per_host,),
        slices=found.num_slices,
        device_kind=found.generation.chip.device_kind.value,
    )


def assert_libtpu_agrees(slices: Sequence[Slice]) -> None:
    answers = ask_libtpu([question_of(found) for found in slices])
    expected = {found.name: expected_of(found) for found in slices}
    assert expected == {f.name: a for f, a in zip(slices, answers, strict=True)}


def test_libtpu_has_the_devices_and_hosts_of_every_slice_that_can_be_had_by_name() -> None:
    assert_libtpu_agrees(all_slices())


def test_libtpu_has_the_devices_and_hosts_of_whole_cubes_without_a_name() -> None:
    cubes = [(4, 4, 16), (4, 8, 16), (4, 4, 256), (8, 8, 64), (16, 16, 16)]
    three_axes = [generation for generation in all_generations() if generation.num_axes == 3]
    assert_libtpu_agrees([slice_of(generation, t) for generation in three_axes for t in cubes])


def test_libtpu_has_the_hosts_of_several_slices_and_of_unusual_machines() -> None:
    names = ["2*v5e-16", "4*v6e-256", "3*v5e-8", "2*tpu7x-2", "2*v4-128", "2*v3-32"]
    machines = machines_for(generation_named("v5e"), (2, 4))
    unusual = [slice_of(generation_named("v5e"), (2, 4), machine=machine) for machine in machines]
    assert_libtpu_agrees([*map(parse_slice, names), *dict.fromkeys(unusual)])


def test_libtpu_needs_the_host_bounds_and_the_prefix_that_vtpu_gives_it() -> None:
    answers = ask_libtpu(
        [
            ("v5e:3x3", {"chips_per_host_bounds": [2, 2, 1]}),
            ("v5litepod:4x4", {}),
            ("v7x:2x2x1", {}),
            ("tpu7x:2x2x1", {"chip_config_name": "megacore"}),
        ]
    )
    assert all(answer.refused and not answer.died for answer in answers)


def test_libtpu_accepts_shapes_that_cannot_be_had() -> None:
    shapes = ["v5e:32x32", "v5e:4x2", "v5p:2x2x3", "v5e:2x16"]
    answers = ask_libtpu([(shape, {"chips_per_host_bounds": [2, 2, 1]}) for shape in shapes])
    assert all(answer.devices for answer in answers)


def test_a_child_that_dies_is_an_answer_and_the_next_child_takes_the_rest() -> None:
    wrap: dict[str, object] = {"wrap": [True, True, True]}
    answers = ask_libtpu([("v5p:4x4x12_twisted", wrap), ("v5p:4x4x12", wrap)])
    assert answers[0].died
    assert answers[1].devices == 192


if __name__ == "__main__":
    given = [parse_slice(name) for name in sys.argv[1:]] or list(all_slices())
    for each, got in zip(given, ask_libtpu(list(map(question_of, given))), strict=True):
        print(each.describe(), got)
