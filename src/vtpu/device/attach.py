"""Puts the virtual slice in the place of JAX's TPU backend, in this process.

This is the one place that touches JAX's own registry of backends.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import importlib.util
import os
import platform
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtpu.chips import Slice, parse_slice
from vtpu.compiler.cache import ResultCache
from vtpu.compiler.pool import WorkerPool
from vtpu.compiler.results import TopologyFacts
from vtpu.compiler.service import CompilerService, Topology, libtpu_release
from vtpu.device import _core
from vtpu.device.explanations import Explanations
from vtpu.device.handlers import Handlers
from vtpu.device.interrupts import interrupt_stays_the_end
from vtpu.device.kernels import keep_kernels
from vtpu.device.late_settings import late_settings
from vtpu.device.leaving import hold_threads, let_children_end
from vtpu.device.other_hosts import take_other_hosts_as_this_one
from vtpu.device.recorder import Recorder
from vtpu.device.settings import DEFAULT_SLICE, Settings, read_settings
from vtpu.device.values import Values, choose_limits
from vtpu.errors import UsageError, VtpuError
from vtpu.recording.recording import DeviceRecord, RunRecord
from vtpu.units import counted
from vtpu.values.budget import Mode
from vtpu.values.reasons import Reasons

if TYPE_CHECKING:  # the cost model, which only pace needs
    from vtpu.device.pace import ProgramSeconds

_PLATFORM = "tpu"
_UNAVAILABLE = 14  # of the ABI's error codes


@dataclass(slots=True, repr=False)
class Session:
    """The virtual slice of this process, and what is to happen when the process ends."""

    slice: Slice
    host: int
    recorder: Recorder
    compiler: CompilerService
    handlers: Handlers
    host_speed: float = 1.0
    at_end: Callable[[Session], None] | None = None
    _pid: int = field(default_factory=os.getpid)

    def __repr__(self) -> str:
        """As a notebook shows what `vtpu.attach` returned."""
        devices = counted(self.slice.num_devices, "device")
        return f"<virtual {self.slice.name}, {devices}, host {self.host} of {self.slice.num_hosts}>"

    def begin(self, before: Session | None) -> None:
        """Records what happens from now on. `before` compiled in this process, and ends."""
        if before:
            self.handlers.take_over(before.handlers)
            _core.drain_events()  # they are of no run
        self.handlers.explain()
        self.recorder.begin_writing()
        self.handlers.begin_pace()
        let_children_end(_clients)

    def end(self) -> None:
        """Writes the end of the recording and lets the compiler go. Once, in this process only."""
        if os.getpid() != self._pid:
            return
        self._pid = 0
        with interrupt_stays_the_end():
            self._end()

    def _end(self) -> None:
        _core.end_pace()
        if self.compiler.cache.problem:
            self.recorder.problem(self.compiler.cache.problem)
        self.handlers.give_up_compiling()
        values = self.handlers.describe_values()
        late = late_settings(self.compiler.pool.environment)
        self.recorder.end(self.handlers.client, self.compiler.pool.started, values, late)
        if self.at_end:
            self.at_end(self)
        hold_threads(self.compiler.pool.close)


_session: Session | None = None
_compiling: Session | None = None


def compiling_session() -> Session:
    """The session to compile with: the attached one, else one that is nobody's backend.

    Raises:
        CompilerMissing, CompilerDied: the topology could not be had from libtpu.
    """
    global _compiling  # noqa: PLW0603, JAX has one table of functions for the life of a process
    if _session is not None:
        return _session
    if _compiling is None:
        settings = replace(
            read_settings(), slice=DEFAULT_SLICE, out=None, values=Mode.ZEROS, pace=False
        )
        _compiling = _new_session(settings, parse_slice(DEFAULT_SLICE))
        atexit.register(_compiling.compiler.pool.close)
    return _compiling


def devices_to_compile_for(session: Session, wanted: Slice) -> list[Any]:
    """The devices of a slice, which need not be the attached one, to lower and compile for."""
    from jax._src.lib import xla_client  # pyright: ignore[reportPrivateImportUsage]

    table = _table_of(session.handlers)
    topology = xla_client.make_c_api_device_topology(
        table, wanted.libtpu_name, **dict(wanted.libtpu_options)
    )
    return list(topology._make_compile_only_devices())  # noqa: SLF001, as jax.experimental.topologies


def current_session() -> Session | None:
    """The session of this process, if a slice is attached."""
    return _session


def attach(
    settings: Settings,
    at_end: Callable[[Session], None] | None = None,
    seconds_of: ProgramSeconds | None = None,
) -> Session:
    """Makes `jax.devices()` the devices of the slice that `settings` names.

    `seconds_of`: with pace, times of programs that are known better than by the cost model.

    Raises:
        UnknownSlice: there is no such slice.
        UsageError: the slice has no such host; another slice is attached; JAX runs already.
        CompilerMissing, CompilerDied: the topology could not be had from libtpu.
    """
    if _session is not None:
        return _start(settings, at_end)  # refuses another slice; JAX may run on this one already
    _refuse_when_running()
    session = _start(settings, at_end, seconds_of)
    _register(lambda: session, whatever_was_asked=True)
    take_other_hosts_as_this_one()
    return session


def attach_when_used(at_end: Callable[[Session], None]) -> None:
    """The same with the slice of the environment, but only once JAX makes its TPU backend.

    That then fails with what is wrong. `at_end` is called unless the environment wants no report.
    """
    _register(lambda: _start_of_environment(at_end), whatever_was_asked=False)
    take_other_hosts_as_this_one()


def function_table(at_end: Callable[[Session], None]) -> object:
    """The function table on the slice of the environment, for a loader that JAX has not asked.

    Every function refuses with what is wrong when there is no such slice.
    """
    handlers: Handlers | _Refusal
    try:
        handlers = _start_of_environment(at_end).handlers
    except VtpuError as error:
        handlers = _Refusal(str(error))
    return _table_of(handlers)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Answers the core that there is no slice, and why."""

    why: str

    def __getattr__(self, name: str) -> Callable[..., None]:
        def refuse(*_: object) -> None:
            raise _core.StatusError(_UNAVAILABLE, self.why)

        return refuse


def _table_of(handlers: Handlers | _Refusal) -> object:
    _core.set_handlers(handlers)
    _core.set_profiler_table_size(_profiler_table_bytes())
    return _core.api_capsule()


def _start_of_environment(at_end: Callable[[Session], None]) -> Session:
    settings = read_settings()
    return _start(settings, at_end if settings.prints_report else None)


def _start(
    settings: Settings,
    at_end: Callable[[Session], None] | None,
    seconds_of: ProgramSeconds | None = None,
) -> Session:
    """The session of this process, made the first time."""
    global _session  # noqa: PLW0603, JAX has one slice for the life of a process
    wanted = parse_slice(settings.slice)
    if _session is not None:
        if (_session.slice, _session.host) == (wanted, settings.host):
            return _session
        raise UsageError(
            f"This process already runs on a virtual {_session.slice.name}. JAX keeps its devices "
            "for the life of a process: restart it (in a notebook, its kernel) for another slice."
        )
    if not 0 <= settings.host < wanted.num_hosts:
        raise UsageError(
            f"{wanted.describe()}: there is no host {settings.host}; {wanted.describe_hosts()}."
        )
    _session = _new_session(settings, wanted, seconds_of)
    _session.begin(_compiling)
    _session.at_end = at_end
    atexit.register(_session.end)
    return _session


def _clients() -> list[object]:
    from jax._src import xla_bridge

    return list(xla_bridge._backends.values())  # noqa: SLF001, `backends()` would make some


def _refuse_when_running() -> None:
    from jax._src import xla_bridge

    if xla_bridge.backends_are_initialized():
        running = ", ".join(xla_bridge.backends())
        raise UsageError(
            f"JAX already runs on {running} in this process and cannot change its devices any more. "
            "Attach the slice before the first array is made (in a notebook: restart the kernel), "
            "or use `vtpu run`."
        )


def _new_session(
    settings: Settings, wanted: Slice, seconds_of: ProgramSeconds | None = None
) -> Session:
    cache = ResultCache(settings.cache_folder, settings.cache_limit_bytes)
    pool = WorkerPool(
        dict(os.environ), limit=settings.workers, timeout_s=settings.compile_timeout_s
    )
    compiler = CompilerService(pool, cache)
    topology = Topology(wanted.libtpu_name, dict(wanted.libtpu_options))
    facts = compiler.topology(topology)
    _core.set_stablehlo_versions(facts.stablehlo_current, facts.stablehlo_minimum)
    recorder = Recorder(
        settings.out,
        _describe_run(settings, wanted, facts),
        Reasons(),
        is_claimed=settings.out_is_claimed,
        run_began=settings.run.began_unix_s if settings.run else None,
    )
    explanations = Explanations()
    values = _new_values(settings, facts, recorder)
    pace = None
    if settings.pace:
        from vtpu.device.pace import Pace

        pace = Pace(wanted, facts, settings.host, seconds_of, recorder.problem)
    handlers = Handlers(
        topology, facts, settings.host, compiler, recorder, explanations, values, pace
    )
    _core.set_handlers(handlers)
    os.register_at_fork(after_in_child=pool.begin_in_child)
    return Session(wanted, settings.host, recorder, compiler, handlers, settings.host_speed)


def _new_values(settings: Settings, facts: TopologyFacts, recorder: Recorder) -> Values | None:
    if settings.values is Mode.ZEROS:
        return None
    keep_kernels()
    return Values(
        settings.values,
        settings.values_budget,
        settings.unknown,
        recorder.reasons,
        recorder.problem,
        choose_limits(settings.values_memory_bytes, settings.values_disk_bytes),
        num_devices=len(facts.devices),
    )


def _register(session: Callable[[], Session], whatever_was_asked: bool) -> None:
    """Makes the slice JAX's backend `tpu`. `session` is called when that is first needed."""
    import jax
    from jax._src import xla_bridge
    from jax._src.lib import _jax, _profiler, xla_client  # pyright: ignore[reportPrivateImportUsage, reportAttributeAccessIssue]

    def table() -> object:
        table = _table_of(session().handlers)
        if not _jax.pjrt_plugin_loaded(_PLATFORM):
            xla_client.load_pjrt_plugin_with_c_api(_PLATFORM, table)
            _profiler.register_plugin_profiler(table)
        return table

    def make_client() -> object:
        try:
            table()
        except VtpuError as error:  # JAX puts words of its own around it, about other backends
            raise VtpuError(f"\n\n  vtpu: {error}\n\n") from None
        if not xla_client.pjrt_plugin_initialized(_PLATFORM):
            xla_client.initialize_pjrt_plugin(_PLATFORM)
        # As JAX makes the client of real TPUs: it gets nothing of `jax.distributed`.
        return xla_client.make_c_api_client(_PLATFORM)

    def make_topology(*args: Any, **options: Any) -> object:
        return xla_client.make_c_api_device_topology(table(), *args, **options)

    xla_bridge.register_backend_factory(
        _PLATFORM, make_client, priority=300, fail_quietly=False, make_topology=make_topology
    )
    asked = (jax.config.jax_platforms or "vtpu").split(",")
    if whatever_was_asked or "vtpu" in asked:
        jax.config.update("jax_platforms", f"{_PLATFORM},cpu")


def _profiler_table_bytes() -> int:
    """The size of a profiler's function table to the installed jaxlib, which accepts no other.

    Three functions were added behind jaxlib 0.10.
    """
    from jax._src.lib import version

    return 80 if version < (0, 11) else 104


def _describe_run(settings: Settings, wanted: Slice, facts: TopologyFacts) -> RunRecord:
    return RunRecord(
        slice=wanted.name,
        slice_asked=settings.slice,
        host=settings.host,
        num_hosts=wanted.num_hosts,
        devices=tuple(
            DeviceRecord(
                id=d.id,
                host=d.process_index,
                kind=d.kind,
                coords=tuple(d.attributes.get("coords", ())),
                core=d.attributes.get("core_on_chip", 0),
                slice_index=d.attributes.get("slice_index", 0),
            )
            for d in facts.devices
        ),
        hbm_bytes=facts.hbm_bytes,
        platform_version=facts.platform_version,
        versions={
            "vtpu": _version("vtpu"),
            "jax": _version("jax"),
            "jaxlib": _version("jaxlib"),
            "libtpu": libtpu_release(),
            "python": platform.python_version(),
        },
        command=tuple(sys.orig_argv),
        folder=_folder(),
        started_unix_s=time.time(),
        library_folders=_library_folders(),
        function_names=tuple(_core.function_names()),
        values=settings.values,
        part_of=str(settings.run or ""),
        is_paced=settings.pace,
    )


def _library_folders() -> tuple[str, ...]:
    """The folders of Python's own modules, of installed packages, of jax and of vtpu."""
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for module in ("jax", "jaxlib"):
        spec = importlib.util.find_spec(module)
        paths += list(spec.submodule_search_locations or []) if spec else []
    own = Path(__file__).parents[1]
    paths += [str(p) for p in own.iterdir() if p.name != "demo"]  # the demo is a user's program
    return tuple(dict.fromkeys(paths))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # the folder was removed
        return ""
