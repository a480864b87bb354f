"""A program that fails ends under `vtpu run` as it ends under plain Python."""

from __future__ import annotations

import json
import signal

import pytest

from running import REPORT_HEADING, Bench, Ended

USES_JAX = "import jax, jax.numpy as jnp\nx = jax.jit(lambda a: a * 2)(jnp.ones((8, 128)))\n"


def run_both(bench: Bench, *arguments: str) -> tuple[Ended, Ended]:
    """Ends of `vtpu run ARGUMENTS` and of `python ARGUMENTS`."""
    return bench.vtpu("run", *arguments), bench.python(*arguments, JAX_PLATFORMS="cpu")


@pytest.mark.parametrize(
    "text",
    [
        "def f(:\n",
        "import sys\nsys.exit(3)\n",
        "import sys\nsys.exit('no data')\n",
        "raise ValueError('wrong data')\n",
        "import missing_module\n",
        "def outer():\n    inner()\ndef inner():\n    assert False, 'deep'\nouter()\n",
        "raise SystemExit\n",
        "\0",
    ],
)
def test_errors_before_jax_are_pythons_own(bench: Bench, text: str) -> None:
    ours, plain = run_both(bench, bench.script(text))
    if plain.exit_code == 0:
        assert ours.stderr.startswith("vtpu: the program ended without using the TPU")
    else:
        assert ours.stderr == plain.stderr
    assert (ours.exit_code, ours.stdout) == (plain.exit_code, plain.stdout)
    assert {path.name for path in bench.folder.iterdir()} == {"prog.py"}


@pytest.mark.parametrize("arguments", [["missing.py"], ["-m", "missing.package"], ["."]])
def test_a_missing_program_is_pythons_own_error(bench: Bench, arguments: list[str]) -> None:
    ours, plain = run_both(bench, *arguments)
    assert (ours.exit_code, ours.stdout) == (plain.exit_code, plain.stdout)
    assert ours.stderr.partition(": ")[2] == plain.stderr.partition(": ")[2]  # behind Python's path
    assert plain.exit_code != 0


def test_an_exception_after_work_on_the_slice(bench: Bench) -> None:
    script = bench.script(USES_JAX + "print('before')\nx.undefined\n")
    ours, plain = run_both(bench, script)

    assert (ours.exit_code, ours.printed, ours.stderr) == (1, "before\n", plain.stderr)
    assert "AttributeError" in plain.stderr
    assert "exit code" in ours.report_text


@pytest.mark.parametrize(
    ("end", "exit_code"),
    [("import sys; sys.exit(3)", 3), ("import sys; sys.exit('done')", 1), ("1 / 0", 1)],
)
def test_the_exit_code_is_the_programs(bench: Bench, end: str, exit_code: int) -> None:
    run = bench.run(USES_JAX + end + "\n")

    assert run.exit_code == exit_code
    assert (run.summary.run.exit_code, run.summary.run.was_cut) == (exit_code, False)
    assert run.program("jit__lambda").calls == 1
    assert run.summary.problems == ()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_that_ends_the_program_ends_vtpu(bench: Bench, number: signal.Signals) -> None:
    text = "print('before', flush=True)\nimport os, time\ntime.sleep(2)\n"
    text += f"os.kill(os.getpid(), {int(number)})\n"
    run = bench.run(USES_JAX + text)

    assert (run.exit_code, run.printed, run.stderr) == (-number, "before\n", "")
    facts = run.summary.run
    assert (facts.exit_code, facts.was_cut, facts.wall_s) == (-number, True, None)
    assert run.program("jit__lambda").compiles == 1
    assert len(run.summary.problems) == 1
    assert "without running Python's exit functions" in run.summary.problems[0]
    assert run.summary.problems[0] in run.report_text


def test_leaving_without_cleaning_up(bench: Bench) -> None:
    run = bench.run(USES_JAX + "import os, time\ntime.sleep(2)\nos._exit(7)\n")
    assert (run.exit_code, run.stderr) == (7, "")
    assert (run.summary.run.exit_code, run.summary.run.was_cut) == (7, True)
    assert run.program("jit__lambda").compiles == 1


def test_a_program_that_never_uses_jax(bench: Bench) -> None:
    ended = bench.vtpu("run", bench.script("print('hello')\n"))

    assert (ended.exit_code, ended.stdout) == (0, "hello\n")
    assert ended.stderr == (
        "vtpu: the program ended without using the TPU: nothing was recorded. If it selects "
        "another platform itself (jax_platforms, JAX_PLATFORMS), it ran there.\n"
    )
    assert {path.name for path in bench.folder.iterdir()} == {"prog.py"}


def test_a_program_that_chooses_the_cpu_itself(bench: Bench) -> None:
    text = (
        "import jax, jax.numpy as jnp\njax.config.update('jax_platforms', 'cpu')\n"
        "print(jnp.arange(3).sum(), jax.devices())\n"
    )
    ended = bench.vtpu("run", bench.script(text))
    assert (ended.exit_code, ended.stdout) == (0, "3 [CpuDevice(id=0)]\n")
    assert "it ran there" in ended.stderr


def test_output_and_input_pass_through_as_they_are(bench: Bench) -> None:
    text = (
        "import sys\nprint('to the user', file=sys.stderr)\n"
        "sys.stdout.buffer.write('é\\r\\n\\ttab\\x1b[1m'.encode())\n"
        "print(repr(sys.stdin.read()), len(sys.argv))\n"
    )
    run = bench.run(USES_JAX + text, "", "a b")
    assert run.exit_code == 0
    assert run.printed == "é\n\ttab\x1b[1m'' 3\n"  # universal newlines in the test
    assert run.stderr == "to the user\n"
    assert run.stdout.count(REPORT_HEADING) == 1


def test_a_users_own_sitecustomize_still_runs(bench: Bench) -> None:
    own = bench.folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.from_the_user = 'seen'\n")
    text = (
        USES_JAX
        + "import os, sys\nprint(sys.from_the_user, os.environ['PYTHONPATH'] == sys.argv[1])\n"
    )
    path = bench.environment.get("PYTHONPATH")
    joined = f"{own}:{path}" if path else str(own)

    report = bench.vtpu("run", bench.script(text), joined, PYTHONPATH=joined)
    assert (report.exit_code, report.printed, report.stderr) == (0, "seen True\n", "")


MARKUP = """
import jax
f = jax.jit(lambda a: a * 2)
x = f(1.)  # [/b] µ
"""


def test_a_source_with_brackets_is_reported_as_it_is(bench: Bench) -> None:
    run = bench.run(MARKUP)
    run.succeeded()
    assert "prog.py:4  x = f(1.)  # [/b] µ\n" in run.report_text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_without_unicode_gets_a_report(bench: Bench, encoding: str) -> None:
    script = bench.script(MARKUP.replace("µ", "µ π"))
    plain = bench.vtpu("run", script, PYTHONIOENCODING=f"{encoding}:strict", PYTHONUTF8="0")
    assert (plain.exit_code, plain.stderr) == (0, "")
    assert "x = f(1.)  # [/b] " in plain.report_text

    json_text = bench.vtpu("show", "run.vtpu", "--json", "-", PYTHONIOENCODING=f"{encoding}:strict")
    assert json.loads(json_text.stdout)["schema"] == "vtpu.run/1"
    slices = bench.vtpu("slices", PYTHONIOENCODING=f"{encoding}:strict")
    assert (slices.exit_code, slices.stderr) == (0, "")


def test_the_demo_has_a_short_name(bench: Bench) -> None:
    ended = bench.vtpu("demo")
    assert ended.exit_code == 0
    assert "  vtpu/demo/train.py:" in ended.report_text
