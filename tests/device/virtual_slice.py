"""Programs on the virtual slice by the environment alone, without the report."""

from __future__ import annotations

from running import Bench, Ended


class Slice:
    """Runs programs on a virtual v5e-8."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.folder = bench.folder
        self.environment = {
            **bench.environment,
            "JAX_PLATFORMS": "vtpu",
            "VTPU_ON": "v5e-8",
            "VTPU_REPORT": "off",
        }

    def run(self, program: str, *arguments: str, **more: str) -> Ended:
        """Runs the text of a program."""
        script = self._bench.script(program)
        return self._bench.python(script, *arguments, **{**self.environment, **more})
