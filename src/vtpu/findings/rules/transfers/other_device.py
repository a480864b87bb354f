"""Work or arrays that are on another device than the program seems to mean."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vtpu.analysis.run.loop import Loop, Repeated, repeated
from vtpu.analysis.run.placement import devices_used, executed_under_cpu, unasked_copies
from vtpu.analysis.source_lines import UNKNOWN_LINE, SourceLine
from vtpu.evidence import Basis
from vtpu.findings.finding import Evidence, Finding, Severity, count, hbm_bytes
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import RunSubject
from vtpu.findings.words import in_steps, quoted
from vtpu.units import MIB, counted, format_bytes

_FEWEST = 3  # steps or executions
_OFTEN = 0.5  # of the steps
_MUCH = 16 * MIB  # per step


def find(subject: RunSubject) -> Iterable[Finding]:
    """Copies between devices in each step, work on the slice that was meant for the CPU, idle devices."""
    if subject.loop:
        yield from _copies(subject, subject.loop)
    under_cpu = executed_under_cpu(subject.recording, subject.lines, subject.files)
    yield from (_not_on_cpu(subject, line, times) for line, times in under_cpu.items())
    yield from _alone(subject)


def _copies(subject: RunSubject, loop: Loop) -> Iterable[Finding]:
    places = unasked_copies(subject.recording)
    for line in repeated(subject.recording, subject.lines, loop, places):
        if line.steps >= _FEWEST and line.share >= _OFTEN:
            yield _is_copied(subject, line)


def _is_copied(subject: RunSubject, line: Repeated) -> Finding:
    events = subject.recording.events[line.events]
    origins = ", ".join(map(str, np.unique(events["detail"]).tolist()))
    size = format_bytes(round(line.bytes_per_step))
    return Finding(
        rule=RULE.slug,
        severity=Severity.MEDIUM if line.bytes_per_step >= _MUCH else Severity.LOW,
        title=f"{quoted(subject.files.text(line.line))} copies {size} from device {origins} to others {in_steps(line)}, "
        "because arguments are not where the function wants them",
        change="put these arguments where the function wants them once, before the loop: "
        "`x = jax.device_put(x, sharding)`; or have them made there (`out_shardings`, `jnp.zeros(…, device=sharding)`)",
        evidence=(
            Evidence(what="copies in a step", amount=count(round(line.per_step)), line=line.line),
            Evidence(what="bytes in a step", amount=hbm_bytes(round(line.bytes_per_step), Basis.SIMULATED)),
            Evidence(what="largest copy", amount=hbm_bytes(int(events["bytes"].max()), Basis.SIMULATED)),
        ),
        line=line.line,
    )  # fmt: skip


def _not_on_cpu(subject: RunSubject, line: SourceLine, times: int) -> Finding:
    return Finding(
        rule=RULE.slug,
        severity=Severity.LOW,
        title=f"{quoted(subject.files.text(line))} runs on the slice, though `jax.default_device` asks for the CPU there",
        change="move its arguments to the CPU (`jax.device_put(x, jax.devices('cpu')[0])`): a default device "
        "is only for arrays that are on none yet",
        evidence=(Evidence(what="executions on the slice", amount=count(times), line=line),),
        line=line,
    )


def _alone(subject: RunSubject) -> Iterable[Finding]:
    run = subject.summary.run
    used = devices_used(subject.recording)
    executions = sum(subject.calls.values())
    if len(used) != 1 or run.num_local_devices == 1 or executions < _FEWEST or run.exit_code:
        return
    line = subject.summary.time.step.line if subject.summary.time and subject.summary.time.step else None  # fmt: skip
    yield Finding(
        rule=RULE.slug,
        severity=Severity.LOW,
        title=f"everything runs on device {min(used)}: {counted(run.num_local_devices - 1, 'other device')} "
        "of this host do nothing",
        change="split the batch over a mesh of all devices (`jax.make_mesh`, `NamedSharding`, "
        "`jax.device_put(batch, sharding)`); or take a slice of one chip",
        evidence=(
            Evidence(what="devices of this host", amount=count(run.num_local_devices)),
            Evidence(what="of them hold arrays or execute programs", amount=count(len(used))),
            Evidence(what="executions", amount=count(executions)),
        ),
        line=line or UNKNOWN_LINE,
    )


RULE = Rule(
    code="X205",
    slug="other-device",
    group=Group.TRANSFERS,
    title="Work or arrays are on another device than the program seems to mean",
    why="An array that a function wants elsewhere is moved there at every call, silently: one made with "
    "`jnp.ones` lies on device 0, and a function over a mesh copies it to all devices each time. A default "
    "device does not move arrays that are placed already. And without a sharding everything runs on device 0.",
    change="Give arrays their sharding where they are made, or once with `jax.device_put` before the loop.",
    limits="Copies that the program asks for with `jax.device_put` are meant (pipelines) and not reported. What "
    "they take is not modelled. What JAX runs on the CPU is not recorded, so work that is there though it was "
    "meant for the slice is not seen. Of other hosts nothing is known, and of a run that failed it is not said that "
    "devices are idle.",
    fixes=("keep-on-device",),
    in_run=find,
)
