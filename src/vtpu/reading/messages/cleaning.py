"""Text without what loggers, clusters and web pages put around it, and the lines it came from.

Messages are searched in the whole text with any white space between words, so it does not matter
where lines were broken. Loggers' prefixes stand at the beginning of each line, so they go first.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

_LEVEL = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_PREFIX = re.compile(
    r"[ \t]*(?:"
    # absl: E1111 07:35:00.272763 1404 file.cc:81]; also with seconds of the epoch and no file
    r"[IWEF]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ (?:(?P<absl>[^\s\]]+:\d+)\] ?| *)"
    # TensorFlow: 2020-05-04 09:05:40.721128: E    1578 path:76]
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] +(?:\d+ +)?(?P<dated>[^\s\]]+:\d+)\] ?"
    r"|[IWEF] (?P<short>[^\s\]]+\.\w+:\d+)\] ?"
    # a process of a server or of a cluster: (EngineCore pid=7), (pid=12, ip=10.0.0.1)
    r"|\((?:[\w.:\-]+ )?pid=\d+(?:, ?ip=[\w.:]+)?\) ?"
    # vLLM: ERROR 08-19 10:02:37 [core.py:1184]
    rf"|{_LEVEL} \d\d-\d\d \d\d:\d\d:\d\d \[[^\]\s]+:\d+\] ?"
    # a time, as Python's loggers, containers and batch systems write it
    r"|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?(?: -)? "
    r"|std(?:out|err) [FP] "  # behind such a time: a line of a container on a node's disk
    rf"|{_LEVEL}(?::[\w.]+:|: | - )"
    r"|\[?(?:rank|worker|process|host|task)[ _]?\d+\]?: ?"
    r"|>(?!=) ?"  # a quotation
    r")"
)
#: A line may pass through several loggers.
_MOST_PREFIXES = 12
_SUFFIX = re.compile(r"\s*\[repeated \d+x across cluster\].*$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ENTITIES = {"&gt;": ">", "&lt;": "<", "&quot;": '"', "&amp;": "&", "\u00a0": " ", "**": ""}
#: A text that was printed by `repr`: its line breaks are two characters.
_ESCAPED_BREAK = re.compile(
    r"\\n(?=(?:\\n|\\t|\s)*(?:Total \w+ usage|reserved|Output size|Program \w+ requirement|See http"
    r"|Largest program|\d+\. Size:|Size:|Operator:|Shape:|XLA [Ll]abel:|Ran out of|Error "
    r"|BufferAssignment|Peak buffers))"
)
_GAP = re.compile(
    r"[ \t]*(?:\[?(?:\.{3,}|…)\]?|[<(\[]?(?:snip|truncated|\d+ (?:more )?lines (?:omitted|cut))[>)\]]?)"
    r"[ \t]*"
)


@dataclass(frozen=True, slots=True)
class CleanText:
    """A text without prefixes. `starts[i]`: where line i + 1 of the original begins in it."""

    text: str
    starts: tuple[int, ...]
    sources: dict[int, str]

    def line_of(self, at: int) -> int:
        """The line of the original text, from 1, that position `at` comes from."""
        return max(1, bisect_right(self.starts, at))

    def lines_of(self, start: int, end: int) -> tuple[int, int]:
        """The first and last line of a span."""
        return self.line_of(start), self.line_of(max(start, end - 1))

    def line(self, number: int) -> str:
        """Line `number`, without its end."""
        end = self.starts[number] if number < len(self.starts) else len(self.text) + 1
        return self.text[self.starts[number - 1] : end - 1]


def clean(text: str) -> CleanText:
    """The text without prefixes of loggers, colours and markup; one line stays one line."""
    pieces: list[str] = []
    starts: list[int] = []
    sources: dict[int, str] = {}
    at = 0
    for number, raw in enumerate(text.split("\n"), start=1):
        line, source = _strip(raw.rstrip("\r"))
        if source:
            sources[number] = source
        starts.append(at)
        pieces.append(line)
        at += len(line) + 1
    return CleanText("\n".join(pieces), tuple(starts), sources)


def is_gap(line: str) -> bool:
    """Whether a line says that lines were left out: `[...]`."""
    return _GAP.fullmatch(line) is not None


def _strip(line: str) -> tuple[str, str]:
    """A line without its prefixes, and the source file that one of them names."""
    source = ""
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    for mark, plain in _ENTITIES.items():
        if mark in line:
            line = line.replace(mark, plain)
    for _ in range(_MOST_PREFIXES):
        match = _PREFIX.match(line)
        if match is None:
            break
        source = match["absl"] or match["dated"] or match["short"] or source
        line = line[match.end() :]
    if "repeated" in line:
        line = _SUFFIX.sub("", line)
    if "\\n" in line and _ESCAPED_BREAK.search(line):
        line = line.replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'")
    return line.lstrip("\t"), source
