"""How much of a chip a step uses: of its matrix units, its HBM, and of its time by waiting for links."""

from __future__ import annotations

from dataclasses import dataclass

from vtpu.analysis.time.programs import ProgramTimes
from vtpu.analysis.time.report import report_time
from vtpu.clock.resources import Resource

_COMMUNICATION = (Resource.ICI, Resource.DCN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """Of one device, over a step in which its program runs once. Other programs of a step do not count.

    `mfu` counts the FLOPs of the model, without what is recomputed; `mxu` all that the matrix units do;
    both over those of the data sheet. `hbm` is of the data sheet's bandwidth. `exposed_s`: the core waits
    for other chips; `host_link_s`: for transfers between HBM and the host's memory inside the program.
    """

    mfu: float
    mxu: float
    hbm: float
    exposed_s: float
    host_link_s: float


def utilisation_of(times: ProgramTimes, program: int, step_s: float) -> Utilisation | None:
    """How much of a device a step of `step_s` seconds uses; None when the program has no modelled time."""
    time, module = times.of(program), times.module(program)
    if time is None or module is None or not step_s:
        return None
    found = report_time(module, time)
    peak = step_s * time.peak_flops_per_s
    return Utilisation(
        mfu=found.model_flops / peak,
        mxu=(time.flops - time.unmodelled_flops) / peak,
        hbm=(time.hbm_bytes - time.unmodelled_bytes) / (step_s * time.hbm_bytes_per_s),
        exposed_s=sum(time.exposed.get(r, 0.0) for r in _COMMUNICATION),
        host_link_s=time.exposed.get(Resource.HOST_LINK, 0.0),
    )
