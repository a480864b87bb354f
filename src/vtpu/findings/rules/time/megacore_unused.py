"""Chips of which one of two cores has nothing to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import prod

from vtpu.analysis.time.programs import positions_of
from vtpu.analysis.time.rows import OperationRow
from vtpu.clock.resources import Resource
from vtpu.clock.torus import Coords
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, count, seconds
from vtpu.findings.rule import Group, Rule
from vtpu.findings.step_cost import most_severe, of_time, steps_of
from vtpu.findings.subjects import ProgramSubject, RunSubject
from vtpu.findings.words import at, place
from vtpu.program.kernels import Kernel
from vtpu.reading.kernel_bodies import kernel_in
from vtpu.units import counted

_LEAST = 0.01  # of the step
_ON_ONE_CORE = (Resource.MXU, Resource.VPU)  # what a kernel that runs on one core has half of


def find_in_program(subject: ProgramSubject) -> Iterable[Finding]:
    """Each kernel that runs on one core of two, because no dimension of its grid is parallel."""
    time, wanted = subject.report.time, subject.slice
    chip = wanted.generation.chip if wanted else None
    if time is None or chip is None or _cores_per_device(subject) < 2:
        return
    for row in time.rows:
        kernel = kernel_in(row.instruction) if row.kind == "kernel" else None
        if kernel and prod(kernel.grid) > 1 and not any(kernel.parallel):
            lost = _lost(row)
            if lost >= _LEAST * time.seconds:
                yield _of_kernel(subject, row, kernel, lost)


def _cores_per_device(subject: ProgramSubject) -> int:
    assert subject.slice is not None, "the chip is known"
    chip = subject.slice.generation.chip
    return chip.tensorcores_per_chip.value // chip.xla_devices_per_chip.value


def _lost(row: OperationRow) -> float:
    """How much longer than on both cores a kernel takes on one; HBM is the chip's either way."""
    now = max(row.time.busy.values(), default=0.0)
    alone = (s * (2 if r in _ON_ONE_CORE else 1) for r, s in row.time.busy.items())
    return (max(alone) / now - 1) * row.seconds if now else 0.0


def _of_kernel(subject: ProgramSubject, row: OperationRow, kernel: Kernel, lost: float) -> Finding:
    grid = " x ".join(map(str, kernel.grid))
    return Finding(
        rule=RULE.slug,
        severity=of_time(lost, subject),
        title=f"the kernel {kernel.name}{at(row.line)} runs on one of the two cores of each chip: no dimension of "
        f"its grid {grid} is parallel",
        change=f"say in `compiler_params` of the `pallas_call` at {place(row.line)} which dimensions of the grid may "
        'run in any order: `pltpu.CompilerParams(dimension_semantics=("parallel", ...))`',
        evidence=(
            Evidence(what="on both cores", amount=seconds(row.seconds), line=row.line),
            Evidence(what="longer on one", amount=seconds(lost)),
        ),
        cost=Cost(step=seconds(lost)),
        line=row.line,
        program=subject.name,
    )


def find_in_run(subject: RunSubject) -> Iterable[Finding]:
    """A run whose steps use one device of each chip that has two."""
    step = steps_of(subject)
    if step is None:
        return
    places = positions_of(subject.recording.run)
    on_chip: dict[tuple[int, Coords], set[int]] = defaultdict(set)
    for device, position in places.items():
        on_chip[position.slice_index, position.coords].add(device)
    program = next(p for p in subject.recording.programs if p.number == step.steps.program)
    used = set(program.device_ids)
    chips = [devices for devices in on_chip.values() if devices & used]
    if not chips or any(len(d) < 2 or d <= used for d in chips):
        return
    yield Finding(
        rule=RULE.slug,
        severity=min(most_severe(step.steps.busy_s, step.steps.count), Severity.MEDIUM),
        title=f"{step.program} runs on one of the two devices of {counted(len(chips), 'chip')}: each is a core of "
        "its own and has half of the chip's HBM",
        change=f"spread the step at {place(step.line)} over all of `jax.devices()`: put the batch on a mesh of "
        f"{len(places)} devices",
        evidence=(
            Evidence(what="devices that the step uses", amount=count(len(used)), line=step.line),
            Evidence(what="devices of these chips", amount=count(sum(map(len, chips)))),
            Evidence(what="the device works in a step", amount=seconds(step.steps.busy_s)),
        ),
        cost=Cost(step=seconds(step.steps.busy_s / 2)),
        line=step.line,
        program=step.program,
    )


RULE = Rule(
    code="T409",
    slug="megacore-unused",
    group=Group.TIME,
    title="One of the two cores of a chip has nothing to do",
    why="Chips of v4 and v5p have two cores that are one device; the compiler shares its own operations out to "
    "both, but a Pallas kernel only along dimensions of its grid that are declared parallel. On v2, v3 and "
    "tpu7x each core is a device of its own, and a program on one device leaves the other idle.",
    change="Declare dimensions of a kernel's grid parallel where their order does not matter; use all devices.",
    limits="Whether the order of a kernel's grid matters is the author's to know. A kernel that HBM bounds is "
    "taken to be as fast on one core, and kernels without a model are not looked at.",
    fixes=("shard-batch",),
    in_program=find_in_program,
    in_run=find_in_run,
)
