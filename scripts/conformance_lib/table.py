"""The table of a conformance run, by file and class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from conformance_lib.expected import ExpectedFailures
from conformance_lib.outcomes import BAD, Outcome

_COLUMNS = (
    ("passed", "passed"),
    ("failed", "FAILED"),
    ("expected failure", "expected"),
    ("unexpected pass", "unexp.pass"),
    ("skipped", "skipped"),
    ("crashed", "CRASHED"),
    ("timed out", "TIMED OUT"),
)


def render_table(
    outcomes: Iterable[Outcome], expected: ExpectedFailures, with_classes: bool
) -> str:
    """Counts of verdicts: a line per file, under it one per class, at the end the sum."""
    files: dict[str, Counter[str]] = {}
    classes: dict[tuple[str, str], Counter[str]] = {}
    total: Counter[str] = Counter()
    for outcome in outcomes:
        verdict = expected.verdict(outcome)
        files.setdefault(outcome.file, Counter())[verdict] += 1
        classes.setdefault((outcome.file, outcome.class_name), Counter())[verdict] += 1
        total[verdict] += 1
    lines = [_line("", [title for _, title in _COLUMNS])]
    for file, counts in files.items():
        lines.append(_line(file, _numbers(counts)))
        if with_classes:
            lines += [
                _line("  " + name, _numbers(counts))
                for (of_file, name), counts in classes.items()
                if of_file == file
            ]
    lines.append(_line("total", _numbers(total)))
    return "\n".join(lines)


def render_markdown(outcomes: Iterable[Outcome], expected: ExpectedFailures) -> str:
    """A line per file, the sum, and the reasons of expected failures."""
    outcomes = list(outcomes)
    files: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        counts = files.setdefault(outcome.file.removesuffix("_test.py"), Counter())
        counts["bad" if outcome.outcome in BAD else outcome.outcome] += 1
    total = sum(files.values(), Counter[str]())
    rows = [*files.items(), ("**all**", total)]
    lines = ["| file | passed | failed | skipped |", "|---|---|---|---|"]
    lines += [f"| {name} | {c['passed']} | {c['bad']} | {c['skipped']} |" for name, c in rows]
    reasons = Counter(
        expected.reasons[o.file][o.name]
        for o in outcomes
        if o.outcome in BAD and o.name in expected.reasons.get(o.file, {})
    )
    lines += ["", "| reason of a failure | tests |", "|---|---|"]
    lines += [f"| {reason} | {count} |" for reason, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def _numbers(counts: Counter[str]) -> list[str]:
    return [str(counts[verdict] or "-") for verdict, _ in _COLUMNS]


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<50}" + "".join(f"{cell:>11}" for cell in cells)


def render_reasons(outcomes: Iterable[Outcome], expected: ExpectedFailures) -> str:
    """How many of the expected failures there are for each reason."""
    counts = Counter(
        expected.reasons[o.file][o.name]
        for o in outcomes
        if o.outcome in BAD and o.name in expected.reasons.get(o.file, {})
    )
    return "\n".join(f"{number:>7}  {reason}" for reason, number in counts.most_common())


def render_surprises(outcomes: Iterable[Outcome], expected: ExpectedFailures) -> str:
    """Every test that did not do what the list says, with the first line of its message."""
    lines = []
    for outcome in outcomes:
        verdict = expected.verdict(outcome)
        if verdict in (*BAD, "unexpected pass"):
            first = outcome.message.strip().partition("\n")[0][:160]
            lines.append(f"{verdict}: {outcome.file}::{outcome.name}  {first}")
    return "\n".join(lines)
