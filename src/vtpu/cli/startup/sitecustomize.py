"""Runs at the start of a process that `vtpu run` starts, before the user's program.

Python imports a module of this name by itself. It takes itself out of the path and the environment,
lets a `sitecustomize` of the user's run, and waits for two modules of JAX to be imported, to tell
`jax.distributed` what cluster this is and `multihost_utils` what other hosts say. Nothing is imported
here that the program does not import.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

from vtpu.device.loading import when_loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_FOLDER = os.path.dirname(os.path.abspath(__file__))


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


def _register_cluster(_clusters: ModuleType) -> None:
    from vtpu.device.cluster import register_cluster

    register_cluster()


def _take_other_hosts_as_this_one(helpers: ModuleType) -> None:
    from vtpu.device.other_hosts import replace_helpers

    replace_helpers(helpers)


_leave_no_trace()
_run_users_own()
when_loaded("jax._src.clusters", _register_cluster)
when_loaded("jax.experimental.multihost_utils", _take_other_hosts_as_this_one)
