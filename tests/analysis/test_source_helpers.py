"""What the text of a program says: values that are read, arguments by name, variables that are set."""

from __future__ import annotations

import pytest

from vtpu.analysis.source.environment import line_of_import, line_that_sets
from vtpu.analysis.source.files import SourceFile
from vtpu.analysis.source.functions import argument_name, kept_in_loop
from vtpu.analysis.source.reads import what_is_read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x = float(loss)", "loss"),
        ("counts, _ = np.histogram(np.asarray(hidden), bins=16)", "hidden"),
        ("print(number, float(metrics['loss']))", "number"),
        ("print(f'step {loss:.3f}')", "loss"),
        ("a = state.loss.item()", "state.loss"),
        ("jax.device_get(params)", "params"),
        ("x = y + 1", ""),
        ("print('done')", ""),
    ],
)
def test_the_value_that_a_line_reads(text: str, value: str) -> None:
    assert what_is_read(SourceFile("a.py", text), 1) == value


FUNCTION = SourceFile("a.py", "def step(weights, batch, *, mode):\n    return weights\n")


def test_an_argument_has_the_name_of_its_parameter() -> None:
    assert argument_name(FUNCTION, "step", "[0][1]") == "batch"
    assert argument_name(FUNCTION, "step", "[0][1]['mask']") == "batch['mask']"
    assert argument_name(FUNCTION, "step", "[1]['mode']") == "mode"


def test_an_argument_of_an_unknown_function_keeps_its_path() -> None:
    assert argument_name(FUNCTION, "other", "[0][1]") == "[0][1]"
    assert argument_name(FUNCTION, "step", "[0][5]") == "[0][5]"
    assert argument_name(None, "step", "batch") == "batch"


LOOP = SourceFile(
    "a.py",
    "table = make()\nfor batch in batches:\n    state = step(state, batch, table, rate=rate)\ny = f(table)\n",
)


def test_what_a_loop_never_assigns_is_kept() -> None:
    assert kept_in_loop(LOOP, 3) == ["table", "rate"]
    assert kept_in_loop(LOOP, 4) == []


@pytest.mark.parametrize(
    "line",
    [
        "os.environ['XLA_FLAGS'] = flags",
        "os.environ['XLA_FLAGS'] += ' --more'",
        "os.environ.setdefault('XLA_FLAGS', flags)",
        "os.environ.update({'XLA_FLAGS': flags})",
        "os.putenv('XLA_FLAGS', flags)",
    ],
)
def test_the_line_that_sets_a_variable(line: str) -> None:
    file = SourceFile(
        "a.py", f"import os\nimport jax.numpy as jnp\n{line}\nprint(os.environ['XLA_FLAGS'])\n"
    )
    assert line_that_sets(file, "XLA_FLAGS") == 3
    assert line_that_sets(file, "LIBTPU_INIT_ARGS") is None
    assert line_of_import(file, "jax") == 2
    assert line_of_import(file, "flax") is None
