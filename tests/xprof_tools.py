"""What XProf's tools say of a profile, as JSON: run by a Python that has the package `xprof`.

python xprof_tools.py FILE.xplane.pb
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from xprof.convert import raw_to_tool_data  # pyright: ignore[reportMissingImports]


def main(path: str) -> None:
    """Asks every tool that the tests look at."""
    stats = table(ask(path, "hlo_stats"))
    overview = [t for t in ask(path, "overview_page") if "cols" in t]
    print(json.dumps({
        "tools": raw_to_tool_data.xspace_to_tool_names([path]),
        "hlo_stats": stats,
        "steps": table(ask(path, "input_pipeline_analyzer")[1]),
        "facts": {k: v for t in overview for k, v in (t.get("p") or {}).items()},
        "diagnostics": [r for t in overview if is_named(t, "severity") for r in table(t)],
        "roofline": table(ask(path, "roofline_model")[0]),
        "roofline_facts": ask(path, "roofline_model")[0]["p"],
        "op_profile": ask(path, "op_profile")["byProgramExcludeIdle"]["metrics"],
        "trace": events(ask(path, "trace_viewer")),
        "memory": {module: memory(path, module) for module in modules(path)},
    }))  # fmt: skip


def ask(path: str, tool: str, **options: Any) -> Any:
    """The value of a tool."""
    data, _ = raw_to_tool_data.xspace_to_tool_data([path], tool, options)
    return json.loads(data)


def is_named(value: dict[str, Any], column: str) -> bool:
    """Whether a table has a column."""
    return any(c["id"] == column for c in value["cols"])


def table(value: dict[str, Any]) -> list[dict[str, Any]]:
    """A table's rows by column."""
    names = [column["id"] for column in value["cols"]]
    rows = [[cell.get("v") if cell else None for cell in row["c"]] for row in value["rows"]]
    return [dict(zip(names, row, strict=True)) for row in rows]


def events(trace: dict[str, Any]) -> dict[str, int]:
    """How many events each line of each plane has."""
    found = trace["traceEvents"]
    planes = {e["pid"]: e["args"]["name"] for e in found if e.get("name") == "process_name"}
    lines = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in found if e.get("name") == "thread_name"
    }
    counts: dict[str, int] = {}
    for e in found:
        if e.get("ph") == "X":
            name = f"{planes[e['pid']]} {lines[e['pid'], e['tid']]}"
            counts[name] = counts.get(name, 0) + 1
    return counts


def modules(path: str) -> list[str]:
    """The modules that XProf found in the profile."""
    ending = ".hlo_proto.pb"
    return [p.name.removesuffix(ending) for p in Path(path).parent.glob(f"*{ending}")]


def memory(path: str, module: str) -> float:
    """The peak of HBM by the memory viewer, MiB."""
    found = ask(path, "memory_viewer", module_name=module, host="", memory_space="0")
    return found.get("peakHeapMib", 0.0)


if __name__ == "__main__":
    main(sys.argv[1])
