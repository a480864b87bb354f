"""What XProf's memory viewer says of the dumps in tests/analysis/dumps, into xprof.json there.

Needs xprof (`pip install xprof`), best in an environment of its own: it is the oracle of
`tests/analysis/test_xprof_agrees.py` and nothing else.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from xprof.convert import raw_to_tool_data  # pyright: ignore[reportMissingImports]

DUMPS = Path(__file__).parents[1] / "tests/analysis/dumps"


def main() -> None:
    """Asks XProf about each dump, in HBM and VMEM."""
    found = {
        dump.name.removesuffix(".hlo.pb"): {space: ask(dump, color) for space, color in SPACES}
        for dump in sorted(DUMPS.glob("*.hlo.pb"))
    }
    (DUMPS / "xprof.json").write_text(json.dumps(found, indent=2) + "\n")


SPACES = (("HBM", "0"), ("VMEM", "1"))


def ask(dump: Path, color: str) -> dict[str, int]:
    """Bytes at the peak and bytes set aside, by XProf's memory viewer."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(dump, Path(folder, "module(1).hlo_proto.pb"))
        profile = Path(folder, "host.xplane.pb")
        profile.touch()
        data, _ = raw_to_tool_data.xspace_to_tool_data(
            [str(profile)],
            "memory_viewer",
            {"module_name": "module(1)", "host": "", "memory_space": color},
        )
    value = json.loads(data)
    return {
        "peak_bytes": round(value.get("peakHeapMib", 0) * 2**20),
        "total_bytes": round(value.get("totalBufferAllocationMib", 0) * 2**20),
    }


if __name__ == "__main__":
    main()
