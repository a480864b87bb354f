"""Something to do as soon as a module has been imported, and not before: JAX decides when."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

Action = Callable[[ModuleType], None]


def when_loaded(name: str, action: Action) -> None:
    """Calls `action` with module `name`: now if it is loaded, else right after that."""
    if module := sys.modules.get(name):
        action(module)
    else:
        sys.meta_path.insert(0, _Watcher(name, action))


class _Watcher(MetaPathFinder):
    """Lets the usual finders load the module, and acts behind them. Once."""

    def __init__(self, name: str, action: Action) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with the action behind its execution."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_act(module: ModuleType) -> None:
            load(module)
            self._action(module)

        spec.loader.exec_module = load_and_act
        return spec
