"""The names of files in XLA's dump folders, by module: `module_0000.jit_step.cl_9.before_…`.

The same for TPU (`after_optimizations`), CPU (`cpu_after_optimizations`) and GPU
(`sm_8.0_gpu_after_optimizations`); openxla/xla `xla/service/dump.cc`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_STAGES = (
    "before_optimizations|after_optimizations_before_buffer_assignment"
    "|after_optimizations_after_buffer_assignment|after_optimizations|after_codegen"
    "|oom_intermediate_module|after_spmd_partitioner|before_pjrt_compile|after_pjrt_compile"
)
_REPORTS = "buffer-assignment-values|buffer-assignment|live-range|memory-usage-report"
_HEAD = r"(?P<head>module_(?P<number>\d{1,18})\.(?P<module>[^/]+?)(?:\.cl_(?P<change>\d{1,18}))?)"
_STAGE_FILE = re.compile(
    rf"{_HEAD}\.(?:(?P<target>[^/]*?)_?(?P<backend>cpu|gpu|tpu)_)?(?P<stage>{_STAGES})"
    rf"(?:-(?P<report>{_REPORTS}))?\.(?P<ending>hlo\.pb|pb|txt|html|dot|svg|mlir)(?:\.gz)?"
)
_PASS_FILE = re.compile(
    rf"{_HEAD}\.(?P<step>\d{{4}})\.(?P<pass>[^/]+?)\.(?P<when>after_[^/]+?|before_[^/]+?)"
    r"\.(?P<ending>hlo\.pb|txt|html|dot)(?:\.gz)?"
)
_FACT_FILE = re.compile(
    rf"{_HEAD}\.(?P<what>hlo_module_config|execution_options|target_arguments|tpu_comp_env"
    r"|debug_options|flagfile|basic_compiler_metadata|transfer_stats|gpu_target_config"
    r"|thunk_sequence|thunk_metadata)(?:\.(?P<ending>\w+))?"
)
_FORMS = {"hlo.pb": "proto", "pb": "proto", "pbtxt": "text", "txt": "text"}


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A file of a dump. `stage`: when in the compilation; `report`: what of it, None for the module.

    `form`: "proto", "text", or the ending of another.
    """

    path: str
    stage: str
    report: str | None
    form: str


@dataclass(frozen=True, slots=True)
class DumpedModule:
    """One compilation. `backend`: tpu, cpu, gpu, or None where no name tells it."""

    folder: str
    head: str
    number: int
    name: str
    backend: str | None
    target: str | None
    files: tuple[DumpFile, ...]
    others: tuple[str, ...]

    def find(self, stage: str, report: str | None = None, form: str | None = None) -> str | None:
        """The path of a file, or None: the first one where no form is asked for."""
        return next(
            (
                file.path
                for file in self.files
                if (file.stage, file.report) == (stage, report) and form in (None, file.form)
            ),
            None,
        )

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the compiler left the module that did not fit."""
        return self.find("oom_intermediate_module") is not None


@dataclass(frozen=True, slots=True)
class DumpFolder:
    """The modules of a folder, in order of their numbers; `unknown`: names that are no dump's."""

    modules: tuple[DumpedModule, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Named:
    folder: str
    match: re.Match[str]
    file: DumpFile

    @property
    def key(self) -> tuple[str, str]:
        return self.folder, self.match["head"]


def dump_files(names: Iterable[str]) -> DumpFolder:
    """Groups the names (or paths) of files in dump folders by module. Never raises."""
    paths = list(names)
    named = [found for path in paths if (found := _parse(path))]
    groups: dict[tuple[str, str], list[_Named]] = {}
    for each in named:
        groups.setdefault(each.key, []).append(each)
    known = {each.file.path for each in named}
    others: dict[tuple[str, str], list[str]] = {}
    unknown: list[str] = []
    for path in paths:
        if path not in known:
            key = _owner(path, groups)
            (unknown if key is None else others.setdefault(key, [])).append(path)
    modules = [_module(key, group, others.get(key, [])) for key, group in groups.items()]
    modules.sort(key=lambda m: (m.folder, m.number, m.head))
    return DumpFolder(tuple(modules), tuple(unknown))


def _parse(path: str) -> _Named | None:
    folder, _, name = path.replace("\\", "/").rpartition("/")
    if match := _STAGE_FILE.fullmatch(name):
        ending = match["ending"]
        file = DumpFile(path, match["stage"], match["report"], _FORMS.get(ending, ending))
    elif match := _PASS_FILE.fullmatch(name):
        ending = match["ending"]
        stage = f"{match['step']}.{match['pass']}.{match['when']}"
        file = DumpFile(path, stage, None, _FORMS.get(ending, ending))
    elif match := _FACT_FILE.fullmatch(name):
        ending = match["ending"] or "text"
        file = DumpFile(path, match["what"], None, _FORMS.get(ending, ending))
    else:
        return None
    return _Named(folder, match, file)


def _owner(path: str, groups: dict[tuple[str, str], list[_Named]]) -> tuple[str, str] | None:
    """The module that a file without a known name belongs to: its name begins with the module's."""
    parts = path.replace("\\", "/").split("/")
    for depth in range(len(parts) - 1, -1, -1):
        folder, name = "/".join(parts[:depth]), parts[depth]
        at = len(name)
        while at > 0:
            if (folder, name[:at]) in groups:
                return folder, name[:at]
            at = name.rfind(".", 0, at)
    return None


def _module(key: tuple[str, str], group: list[_Named], others: list[str]) -> DumpedModule:
    folder, head = key
    match = group[0].match
    targets = [each.match for each in group if "backend" in each.match.re.groupindex]
    backend = next((m["backend"] for m in targets if m["backend"]), None)
    if backend is None and (match["change"] or any(m["stage"] == "after_codegen" for m in targets)):
        backend = "tpu"  # only libtpu writes its change number and no backend
    return DumpedModule(
        folder=folder,
        head=head,
        number=int(match["number"]),
        name=match["module"],
        backend=backend,
        target=next((m["target"] for m in targets if m["target"]), None),
        files=tuple(each.file for each in group),
        others=tuple(others),
    )
