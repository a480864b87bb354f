"""Source lines: short names of files, and their text."""

from pathlib import Path

import pytest

from vtpu.analysis.source_lines import SourceLine
from vtpu.report import source_text
from vtpu.report.source_text import Sources, short_name

DEMO = Path(source_text.__file__).parents[1] / "demo" / "train.py"
SITE = "/project/.venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (str(DEMO), "vtpu/demo/train.py"),
        ("/project/train.py", "train.py"),
        ("/project/models/gpt.py", "models/gpt.py"),
        ("/worker/train.py", "/worker/train.py"),
        ("/home/ada/lib/x.py", "~/lib/x.py"),
        ("/home/adam/x.py", "/home/adam/x.py"),
        (f"{SITE}/flax/nnx/module.py", "flax/nnx/module.py"),
        ("prog.py", "prog.py"),
        ("<stdin>", "<stdin>"),
        ("(no Python frame)", "(no Python frame)"),
    ],
)
def test_files_have_short_names(monkeypatch, file, name):
    monkeypatch.setenv("HOME", "/home/ada")
    short_name.cache_clear()
    assert short_name(file, "/project") == name


def test_a_run_in_the_root_folder_shortens_nothing():
    assert short_name("/train.py", "/") == "/train.py"


def test_a_relative_file_is_read_from_the_folder_of_the_run(tmp_path, monkeypatch):
    (tmp_path / "prog.py").write_text("first\nsecond\n")
    monkeypatch.chdir("/")
    line = Sources(str(tmp_path)).line(SourceLine("prog.py", 2, "f"))
    assert (line.file, line.text) == ("prog.py", "second")


def test_a_file_that_is_gone_has_no_text():
    assert Sources("/project").line(SourceLine("/project/gone.py", 2, "f")).text == ""
