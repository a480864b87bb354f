"""Where profiles are kept: as `jax.profiler` does, so that TensorBoard and XProf find them."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path

from vtpu.errors import UsageError


def write_xspace(data: bytes, folder: Path, host_name: str, began_unix_s: float) -> Path:
    """Writes a profile to `folder/plugins/profile/<when it began>/<host>.xplane.pb`; its path.

    Where there is one already the folder gets a number, `..._2`: profiles of one second are all kept.

    Raises:
        UsageError: the file cannot be written.
    """
    run = time.strftime("%Y_%m_%d_%H_%M_%S", time.localtime(began_unix_s))
    profiles = folder / "plugins" / "profile"
    names = (run if number == 1 else f"{run}_{number}" for number in count(1))
    path = next(
        p for name in names if not (p := profiles / name / f"{host_name}.xplane.pb").exists()
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the profile cannot be written to {path}: {error.strerror}") from error
    return write_profile(data, path)


def write_profile(data: bytes, path: Path) -> Path:
    """Writes a profile to a file; its path. An older file is kept as `path~`.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        if path.is_file() and path.stat().st_size:
            path.replace(path.with_name(path.name + "~"))
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"the profile cannot be written to {path}: {error.strerror}") from error
    return path
