"""What files are, told from their contents: real ones of JAX, logs, and what is foreign."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from message_texts import FITS, LONG
from vtpu.reading import wire
from vtpu.reading.recognize import Kind, as_text, recognize
from vtpu.recording.file import MAGIC

CASES = Path(__file__).parents[1] / "cases" / "oom_text"

PROGRAM = """\
import sys
import jax, jax.numpy as jnp
from pathlib import Path
from jax import export

folder = Path(sys.argv[1])
f = jax.jit(lambda x: jnp.tanh(x @ x))
shape = jax.ShapeDtypeStruct((8, 8), jnp.float32)
exported = export.export(f)(shape)
(folder / "export").write_bytes(exported.serialize())
(folder / "mlir_bytecode").write_bytes(exported.mlir_module_serialized)
lowered = f.lower(shape)
(folder / "stablehlo_text").write_text(lowered.as_text())
compiled = lowered.compile()
(folder / "hlo_text").write_text(compiled.as_text())
module = compiled.runtime_executable().hlo_modules()[0]
(folder / "hlo_module").write_bytes(module.as_serialized_hlo_module_proto())
with jax.profiler.trace(str(folder / "trace")):
    f(jnp.ones((8, 8))).block_until_ready()
(path,) = (folder / "trace").rglob("*.xplane.pb")
path.rename(folder / "xplane")
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("files")
    (folder / "make.py").write_text(PROGRAM)
    command = [sys.executable, str(folder / "make.py"), str(folder)]
    subprocess.run(command, env={**environment, "JAX_PLATFORMS": "cpu"}, check=True, timeout=300)
    return folder


@pytest.mark.parametrize(
    "name", ["export", "mlir_bytecode", "stablehlo_text", "hlo_text", "hlo_module", "xplane"]
)
def test_what_jax_writes_is_recognized(files: Path, name: str) -> None:
    data = (files / name).read_bytes()
    kind = Kind[name.upper()]

    assert recognize(data) is kind
    assert recognize(data[: 3 * len(data) // 4]) is kind


def test_a_module_with_a_config_is_recognized(files: Path) -> None:
    module = (files / "hlo_module").read_bytes()
    config = wire.write_field(2, wire.write_field(1, 7))

    assert recognize(wire.write_field(1, module) + config) is Kind.HLO_WITH_CONFIG
    assert recognize(wire.write_field(1, module)) is Kind.HLO_PROTO


def test_a_module_printed_without_its_first_line_is_hlo(files: Path) -> None:
    text = (files / "hlo_text").read_text()
    assert recognize(text.partition("\n")[2].encode()) is Kind.HLO_TEXT


@pytest.mark.parametrize("name", sorted(path.parent.name for path in CASES.glob("*/input.txt")))
def test_texts_of_failures_are_messages(name: str) -> None:
    assert recognize((CASES / name / "input.txt").read_bytes()) is Kind.MESSAGES


def test_a_message_far_down_in_a_log_is_found() -> None:
    log = "step 1: loss 0.5\n" * 20_000
    assert recognize(log.encode()) is Kind.TEXT
    assert recognize((log + LONG).encode()) is Kind.MESSAGES
    assert recognize(("> " + FITS).encode("utf-16")) is Kind.MESSAGES


@pytest.mark.parametrize("hole", [(b"\0" * 5000, b""), (b"", b"\0" * 5000), (b"\0", b"\0\xff")])
def test_a_log_with_a_hole_of_zeros_is_a_log(hole: tuple[bytes, bytes]) -> None:
    before, behind = hole
    said = b"RESOURCE_EXHAUSTED: Ran out of memory on HBM\n"
    assert recognize(before + said + behind) is Kind.MESSAGES
    assert recognize(before + b"nothing about it\n" + behind) is not Kind.MESSAGES


def archive(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as packed:
            packed.writestr("a", "b")
    else:
        with tarfile.open(fileobj=out, mode="w") as packed:
            packed.addfile(tarfile.TarInfo("a"))
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", Kind.EMPTY),
        (b" \n\t\n", Kind.EMPTY),
        (MAGIC, Kind.RECORDING),
        (b"\x7fELF\x02\x01\x01" + bytes(40), Kind.ELF),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), Kind.IMAGE),
        (archive("zip"), Kind.ARCHIVE),
        (archive("tar"), Kind.ARCHIVE),
        (pickle.dumps([1, 2]), Kind.PYTHON_OBJECTS),
        (json.dumps({"a": 1}).encode(), Kind.JSON),
        (gzip.compress(b"{}", mtime=0), Kind.GZIP),
        (gzip.compress(b"{}", mtime=0)[:12], Kind.GZIP),
        (b"print('hello')\n", Kind.TEXT),
        ("a log of someone who is called Müller\n".encode("latin-1"), Kind.TEXT),
        (bytes(range(256)) * 8, Kind.BINARY),
        (b"\xff" * 5_000_000, Kind.BINARY),
        (bytes(5_000_000), Kind.BINARY),
        (b"; ModuleID = 'm'\n", Kind.LLVM_TEXT),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else None,
)
def test_what_is_foreign_is_named(data: bytes, kind: Kind) -> None:
    assert recognize(data) is kind


@given(st.binary(max_size=300))
def test_every_file_is_of_some_kind(data: bytes) -> None:
    assert recognize(data) in Kind
    assert isinstance(as_text(data), str)


@given(st.binary(max_size=100))
def test_bytes_behind_a_beginning_do_not_raise(data: bytes) -> None:
    for start in (b"\x0a", b"\x0a\x08jit_step\x12", b"\x1f\x8b\x08", b"HloModule ", b"\xff\xfe"):
        assert recognize(start + data) in Kind
