"""`jax.distributed.initialize()` on a virtual slice: a cluster of which this process is the one part.

On a TPU pod every host runs the script and JAX finds the others by itself. On a virtual slice there
is one process; it takes the part of its host for the devices, and for JAX's coordination service it
is a cluster of one, so that starting, barriers and the key-value store work.
"""

from __future__ import annotations

import os
import socket


def register_cluster() -> None:
    """Makes JAX detect the virtual slice before any other kind of cluster."""
    from jax._src.clusters import ClusterEnv

    class VirtualSliceCluster(ClusterEnv):
        """The cluster of one."""

        name = "vtpu"

        @classmethod
        def is_env_present(cls) -> bool:
            return "VTPU_ON" in os.environ

        @classmethod
        def get_coordinator_address(
            cls,
            timeout_secs: int | None,  # noqa: ARG003, the protocol of JAX
            override_coordinator_port: str | None,
        ) -> str:
            return f"localhost:{override_coordinator_port or _free_port()}"

        @classmethod
        def get_process_count(cls) -> int:
            return 1

        @classmethod
        def get_process_id(cls) -> int:
            return 0

    known = ClusterEnv._cluster_types  # noqa: SLF001, JAX has no other way to be first
    known.remove(VirtualSliceCluster)
    known.insert(0, VirtualSliceCluster)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]
