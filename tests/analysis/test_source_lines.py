"""Which line of a stack is the user's."""

import pytest

from recordings import LIBRARY, recording, run_record, stack
from vtpu.analysis.source_lines import UNKNOWN_LINE, LineFinder

FLAX = "/venv/lib/python3/site-packages/flax/nnx/module.py"
MAXTEXT = "/venv/lib/python3/site-packages/maxtext/train.py"
STDLIB = "/venv/lib/python3/threading.py"


def line_of(*frames):
    found = recording(stacks=(stack(*frames),))
    return str(LineFinder(found).line(1))


def test_the_innermost_frame_outside_of_libraries_is_the_users():
    assert line_of((LIBRARY, 1), (FLAX, 2), ("/project/model.py", 3), ("/project/train.py", 4)) == (
        "/project/model.py:3"
    )


def test_a_library_that_calls_the_user_back_is_passed_over():
    assert line_of((LIBRARY, 1), ("/project/loss.py", 2), (FLAX, 3), ("/project/train.py", 4)) == (
        "/project/loss.py:2"
    )


@pytest.mark.parametrize(
    "file", ["<ipython-input-3-0a>", "/tmp/ipykernel_7/12.py", "<stdin>", "<string>"]
)
def test_cells_of_notebooks_and_typed_lines_are_the_users(file):
    assert line_of((LIBRARY, 1), (file, 2), ("/venv/lib/python3/runpy.py", 9)) == f"{file}:2"


def test_an_installed_program_counts_as_the_users():
    assert line_of((LIBRARY, 1), (FLAX, 2), (MAXTEXT, 3), (MAXTEXT, 4)) == f"{MAXTEXT}:3"


def test_an_installed_program_that_runs_as_a_module_has_its_own_line():
    frozen = ("<frozen runpy>", 198)
    assert line_of((LIBRARY, 1), (FLAX, 2), (MAXTEXT, 3), frozen, frozen) == f"{MAXTEXT}:3"


def test_a_thread_of_the_user_has_the_users_line():
    assert line_of((LIBRARY, 1), ("/project/loader.py", 2), (STDLIB, 3), (STDLIB, 4)) == (
        "/project/loader.py:2"
    )


def test_a_stack_of_libraries_alone_gives_its_outermost_line():
    assert line_of((LIBRARY, 1), (STDLIB, 2)) == f"{STDLIB}:2"


def test_frozen_modules_are_pythons_own():
    assert line_of(("<frozen runpy>", 1), ("/project/train.py", 2)) == "/project/train.py:2"


def test_a_call_without_python_frames_has_no_line():
    assert LineFinder(recording()).line(0) == UNKNOWN_LINE


def test_folders_are_compared_whole():
    found = recording(
        run=run_record(library_folders=("/project/lib",)),
        stacks=(stack(("/project/library.py", 1)),),
    )
    assert str(LineFinder(found).line(1)) == "/project/library.py:1"
