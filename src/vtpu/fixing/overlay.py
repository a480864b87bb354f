"""Runs a script as its edited files have it, while the files themselves stay as they are.

    python -m vtpu.fixing.overlay TEXTS.json script.py [arguments]

TEXTS.json has the text of each file by its name. Everything else is as `python script.py` has it.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType


def import_as_edited(texts: Mapping[str, str]) -> None:
    """From now on this process imports these files, by path, with these texts.

    Python's own loader asks for a file's date first, to take its compiled form; without a date there is
    none.
    """
    edited = {os.path.realpath(name): text.encode() for name, text in texts.items()}
    read, stat = SourceFileLoader.get_data, SourceFileLoader.path_stats

    def get_data(self: SourceFileLoader, path: str) -> bytes:
        found = edited.get(os.path.realpath(path))
        return read(self, path) if found is None else found

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, object]:
        if os.path.realpath(path) in edited:
            raise OSError(f"{path} is edited in memory")
        return stat(self, path)

    SourceFileLoader.get_data = get_data  # pyright: ignore[reportAttributeAccessIssue]
    SourceFileLoader.path_stats = path_stats  # pyright: ignore[reportAttributeAccessIssue]


def run_script(script: str, arguments: list[str], texts: Mapping[str, str]) -> None:
    """Runs a script as `__main__`, with its arguments."""
    path = Path(script)
    text = next((t for n, t in texts.items() if Path(n).resolve() == path.resolve()), None)
    source = path.read_bytes() if text is None else text.encode()
    main = ModuleType("__main__")
    main.__dict__.update(__file__=script, __builtins__=builtins, __spec__=None)
    sys.argv = [script, *arguments]
    sys.path[0] = str(path.parent.absolute())
    sys.modules["__main__"] = main
    exec(compile(source, script, "exec"), main.__dict__)  # noqa: S102, it is the user's script


if __name__ == "__main__":
    _texts = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    import_as_edited(_texts)
    run_script(sys.argv[2], sys.argv[3:], _texts)
