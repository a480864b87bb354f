"""The command line of a conformance run."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from conformance_lib.expected import UNSORTED, ExpectedFailures, read_expected
from conformance_lib.files import default_files, find_files
from conformance_lib.outcomes import Outcome, read_outcomes
from conformance_lib.running import Plan, run_file
from conformance_lib.table import (
    render_markdown,
    render_reasons,
    render_surprises,
    render_table,
)

_DESCRIPTION = """\
Runs JAX's own test files on a virtual v5e-8 and compares with the list of known failures.

CHECKOUT is a clone (or an unpacked archive) of the jax repository at the tag of the jax that this
Python has. Without FILES the files listed in tests/conformance/files.toml run.
Exit status: 0 when every test did what the list says, else 1.
"""


def main() -> None:
    """Runs, prints, and exits with 1 when something was not as expected."""
    options = _parser().parse_intermixed_args()
    checkout = options.checkout.resolve()
    files = find_files(checkout, options.files) if options.files else default_files(checkout)
    expected = read_expected(importlib.metadata.version("jax"))
    plan = Plan(
        checkout=checkout,
        platform=options.platform,
        sample=options.sample,
        test_limit_s=options.test_limit,
        file_limit_s=options.file_limit,
        memory_bytes=int(options.memory_limit * 2**30),
        only=options.only,
    )
    outcomes = read_outcomes(options.outcomes)
    for ran in _run(plan, [] if options.outcomes else files, options.jobs):
        outcomes += ran
        print(render_table(ran, expected, with_classes=False).split("\n")[1], flush=True)
        if options.json:
            lines = [json.dumps(asdict(outcome)) for outcome in outcomes]
            options.json.write_text("\n".join(lines) + "\n")
    outcomes = [outcome for outcome in outcomes if outcome.file in files]
    outcomes.sort(key=lambda outcome: files.index(outcome.file))
    if options.update:
        is_whole = not (options.sample or options.only)
        expected = expected.updated(outcomes, is_whole)
        expected.write()
    if options.markdown:
        options.markdown.write_text(render_markdown(outcomes, expected))
    raise SystemExit(_report(outcomes, expected, options.brief))


def _run(plan: Plan, files: list[str], jobs: int) -> Iterator[list[Outcome]]:
    """The outcomes of each file, as they end."""
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run_file, plan, file) for file in files]):
            yield done.result()


def _report(outcomes: list[Outcome], expected: ExpectedFailures, brief: bool) -> int:
    print("\n" + render_table(outcomes, expected, with_classes=not brief))
    if reasons := render_reasons(outcomes, expected):
        print("\nexpected failures by reason:\n" + reasons)
    surprises = render_surprises(outcomes, expected)
    if surprises:
        print("\nnot as expected:\n" + surprises)
    unsorted = any(UNSORTED in tests.values() for tests in expected.reasons.values())
    if unsorted:
        print(f"\n{expected.path} holds failures that nobody has looked at.", file=sys.stderr)
    return 1 if surprises or unsorted else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="conformance",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("checkout", type=Path, metavar="CHECKOUT")
    add("files", nargs="*", metavar="FILE", help="array, pallas/tpu_info, array_test.py")
    add("-j", "--jobs", type=int, default=1, help="files to run at the same time")
    add("-k", "--only", default="", help="only tests that match, as pytest has it")
    add("--sample", type=int, default=0, help="tests per file, evenly spread")
    add("--test-limit", type=float, default=180, metavar="S", help="time for one test")
    add("--file-limit", type=float, default=5400, metavar="S", help="time for one file")
    add("--memory-limit", type=float, default=12, metavar="GIB", help="memory for one process")
    add("--json", type=Path, metavar="FILE", help="every outcome, one JSON object a line")
    add("--outcomes", type=Path, nargs="+", default=[], metavar="FILE",
        help="report on what --json wrote in earlier runs, the last for a test counts; run nothing")  # fmt: skip
    add("--markdown", type=Path, metavar="FILE", help="the table as Markdown")
    add("--update", action="store_true", help="rewrite the list of known failures, keep reasons")
    add("--brief", action="store_true", help="no lines for classes")
    add("--platform", choices=["vtpu", "vtpu-zeros", "cpu"], default="vtpu",
        help="vtpu-zeros: no values are computed; cpu: JAX's own CPU backend with 8 devices, to see "
        "whether a failure is vtpu's")  # fmt: skip
    return parser
