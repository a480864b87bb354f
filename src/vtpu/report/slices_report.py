"""What slices there are, as a document and as JSON."""

from __future__ import annotations

from typing import Any

from vtpu.chips import (
    Figure,
    Generation,
    Slice,
    UnknownSlice,
    all_generations,
    parse_generation,
    parse_slice,
    slices_of,
)
from vtpu.report.document import (
    Bytes,
    Cell,
    Column,
    Count,
    Document,
    Facts,
    Note,
    Section,
    Table,
)

SLICES_SCHEMA = "vtpu.slices/1"


def slices_document(name: str | None) -> Document:
    """All generations, or the slice or generation `name`.

    Raises:
        UnknownSlice: there is no such slice.
    """
    if name is None:
        return Document("TPU slices", (_overview(), _how_to_name()))
    found = _find(name)
    if isinstance(found, Generation):
        return Document(found.title, (_chip(found), _links(found), _sizes(found), _sources(found)))
    sections = (_slice(found), _chip(found.generation), _links(found.generation),
                _sources(found.generation))  # fmt: skip
    return Document(found.describe(), sections)


def slices_as_json(name: str | None) -> dict[str, Any]:
    """The same as a JSON value."""
    if name is None:
        slices = [s for g in all_generations() for s in slices_of(g)]
        generations = list(all_generations())
    else:
        found = _find(name)
        slices = list(slices_of(found)) if isinstance(found, Generation) else [found]
        generations = [found if isinstance(found, Generation) else found.generation]
    return {
        "schema": SLICES_SCHEMA,
        "slices": [_slice_json(s) for s in slices],
        "generations": [_generation_json(g) for g in generations],
    }


def _find(name: str) -> Slice | Generation:
    try:
        return parse_generation(name)
    except UnknownSlice:
        return parse_slice(name)


# ---- documents ---------------------------------------------------------------------------------


def _overview() -> Section:
    rows = tuple(
        (
            g.name,
            g.title,
            Count(g.chip.xla_devices_per_chip.value),
            _gib(g.chip.hbm_limit_gib_per_device.value),
            Bytes(g.chip.vmem_bytes_per_core.value),
            _tera(g.chip.peak_flops_per_s("bf16")),
            Count(g.pod.max_chips.value),
            ", ".join(_short_names(g)),
        )
        for g in all_generations()
    )
    columns = (
        Column("name"),
        Column("generation"),
        Column("devices per chip"),
        Column("HBM per device"),
        Column("VMEM per core"),
        Column("bf16 TFLOP/s per chip"),
        Column("chips of a pod"),
        Column("slices", wraps=True),
    )
    return Section("Generations", (Table(columns, rows), Note(_about_hbm())))


def _about_hbm() -> str:
    """Where the sizes of HBM come from; runs may show others."""
    texts = {
        source.text: None
        for g in all_generations()
        for source in g.sources
        if source.id == g.chip.hbm_limit_gib_per_device.sources[0]
    }
    return (
        f"HBM per device is what programs can use ({'; '.join(texts)}). It depends a little on the "
        "release of libtpu: a run shows what its own gives. `vtpu slices NAME` has the source of "
        "each figure."
    )


def _short_names(generation: Generation) -> list[str]:
    names = [s.accelerator_type or s.name for s in slices_of(generation)]
    return names if len(names) <= 10 else [*names[:8], "…", names[-1]]


def _how_to_name() -> Section:
    text = (
        "Every dialect is understood: v5e-16, v5litepod-16, v5e:4x4, v5p-128 (counts cores), GKE's "
        "`tpu-v5-lite-podslice:4x4`, machine types `ct5lp-hightpu-4t:4x4`; several slices: 2*v5e-16. "
        "`vtpu slices NAME` shows one."
    )
    return Section("Names", (Note(text),))


def _slice(found: Slice) -> Section:
    machine = found.machine
    pairs: list[tuple[str, Cell]] = [
        ("canonical name", found.name),
        ("chips", Count(found.num_chips)),
        ("devices", Count(found.num_devices)),
        ("hosts", f"{found.num_hosts:,} with {found.devices_per_host} devices each"),
        ("host machine", machine.name or "unknown"),
        ("wraps around", _wrap(found)),
        ("all names", ", ".join(found.aliases)),
    ]
    if machine.ram_bytes:
        pairs.insert(5, ("host memory", Bytes(machine.ram_bytes.value)))
    return Section("Slice", (Facts(tuple(pairs)),))


def _wrap(found: Slice) -> str:
    axes = [axis for axis, wraps in zip("xyz", found.wrap, strict=True) if wraps]
    return ", ".join(axes) if axes else "no axis"


def _chip(generation: Generation) -> Section:
    chip = generation.chip
    pairs: list[tuple[str, Cell]] = [
        ("device kind", _values(chip.device_kind)),
        ("devices per chip", Count(chip.xla_devices_per_chip.value)),
        ("TensorCores per chip", Count(chip.tensorcores_per_chip.value)),
        ("HBM per chip (data sheet)", _values(chip.hbm_bytes, _decimal_gb)),
        ("HBM per device (usable)", _values(chip.hbm_limit_gib_per_device, lambda v: f"{v} GiB")),
        ("HBM bandwidth", _values(chip.hbm_bandwidth_bytes_per_s, _gb_per_s)),
        ("VMEM per core", _values(chip.vmem_bytes_per_core, _mib)),
        ("SMEM per core", _values(chip.smem_bytes_per_core, _mib)),
        ("MXUs per core", _values(chip.mxus_per_core)),
        ("MXU edge", _values(chip.mxu_edge)),
        ("clock", _values(chip.clock_hz, lambda v: f"{v / 1e6:,.0f} MHz")),
    ]
    pairs += [
        (
            f"peak {peak.element_type}",
            _values(peak.flops_per_s, lambda v: f"{v / 1e12:,.0f} TFLOP/s"),
        )
        for peak in chip.peaks
    ]
    about = Note(
        "Usable HBM depends a little on the release of libtpu: a run shows what its own gives."
    )
    return Section("Chip", (Facts(tuple(pairs)), about))


def _links(generation: Generation) -> Section:
    links = generation.links
    pairs: tuple[tuple[str, Cell], ...] = (
        ("ICI ports", _values(links.ici_ports)),
        ("ICI link, one way", _values(links.ici_one_way_bytes_per_s_per_link, _gb_per_s)),
        ("ICI per chip, both ways", _values(links.ici_both_ways_bytes_per_s, _gb_per_s)),
        ("host link per chip", _values(links.host_link_bytes_per_s, _gb_per_s)),
        ("DCN per host", _values(links.dcn_bytes_per_s, _gb_per_s)),
    )
    return Section("Links", (Facts(pairs),))


def _sizes(generation: Generation) -> Section:
    rows = tuple(
        (
            s.accelerator_type or s.name,
            s.name,
            Count(s.num_chips),
            Count(s.num_devices),
            Count(s.num_hosts),
            _wrap(s),
        )
        for s in slices_of(generation)
    )
    columns = tuple(
        Column(c) for c in ("name", "topology", "chips", "devices", "hosts", "wraps around")
    )
    return Section("Slices", (Table(columns, rows),))


def _sources(generation: Generation) -> Section:
    used = {claim for figure in _figures(generation) for claim in figure.sources}
    notes = [Note(f"{s.id}: {s.text}") for s in generation.sources if s.id in used]
    return Section("Sources", tuple(notes))


def _figures(generation: Generation) -> list[Figure[Any]]:
    parts = [generation.chip, generation.links]
    values = [getattr(part, name) for part in parts for name in part.__slots__]
    figures = [v for v in values if isinstance(v, Figure)]
    return figures + [peak.flops_per_s for peak in generation.chip.peaks]


def _values(figure: Figure[Any] | None, show: Any = str) -> Cell:
    """A figure with its sources; all of its values where the sources disagree."""
    if figure is None:
        return None
    by_value: dict[Any, list[str]] = {}
    for claim in figure.claims:
        by_value.setdefault(claim.value, []).append(claim.source)
    parts = [f"{show(value)} [{', '.join(sources)}]" for value, sources in by_value.items()]
    return "; ".join(parts)


def _gib(value: float) -> str:
    return f"{value:.2f} GiB"


def _mib(value: int) -> str:
    return f"{value / (1 << 20):g} MiB"


def _decimal_gb(value: int) -> str:
    return f"{value / 1e9:g} GB"


def _gb_per_s(value: float) -> str:
    return f"{value / 1e9:,g} GB/s"


def _tera(figure: Figure[int] | None) -> Cell:
    return f"{figure.value / 1e12:,.0f}" if figure else None


# ---- JSON --------------------------------------------------------------------------------------


def _slice_json(found: Slice) -> dict[str, Any]:
    return {
        "name": found.name,
        "accelerator_type": found.accelerator_type,
        "aliases": list(found.aliases),
        "generation": found.generation.name,
        "topology": list(found.topology),
        "num_slices": found.num_slices,
        "num_chips": found.num_chips,
        "num_devices": found.num_devices,
        "num_hosts": found.num_hosts,
        "devices_per_host": found.devices_per_host,
        "wrap": list(found.wrap),
    }


def _generation_json(generation: Generation) -> dict[str, Any]:
    def figures(part: Any) -> dict[str, Any]:
        values = {name: getattr(part, name) for name in part.__slots__}
        return {
            name: [{"value": c.value, "source": c.source} for c in figure.claims]
            for name, figure in values.items()
            if isinstance(figure, Figure)
        }

    return {
        "name": generation.name,
        "title": generation.title,
        "chip": figures(generation.chip),
        "peak_flops_per_s": {
            peak.element_type: [
                {"value": c.value, "source": c.source} for c in peak.flops_per_s.claims
            ]
            for peak in generation.chip.peaks
        },
        "links": figures(generation.links),
        "sources": {s.id: s.text for s in generation.sources},
    }
