"""Runs at the start of a process that `vtpu run` starts, before the user's program.

Python imports a module of this name by itself. It takes itself out of the path and the environment,
lets a `sitecustomize` of the user's run, and waits for JAX to be imported, to tell its
`jax.distributed` what cluster this is. Nothing is imported here that the program does not import.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_CLUSTERS = "jax._src.clusters"


def _leave_no_trace() -> None:
    """The path and the environment as the user had them."""
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != _FOLDER]
    rest = os.environ.get("PYTHONPATH", "").split(os.pathsep)[1:]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)


def _run_users_own() -> None:
    """The `sitecustomize` that this one stood in front of."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


class _WhenClustersLoad(importlib.abc.MetaPathFinder):
    """Registers the virtual slice's cluster right after JAX has loaded its own kinds."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _CLUSTERS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            load(module)
            from vtpu.device.cluster import register_cluster

            register_cluster()

        spec.loader.exec_module = load_and_register
        return spec


_leave_no_trace()
_run_users_own()
sys.meta_path.insert(0, _WhenClustersLoad())
