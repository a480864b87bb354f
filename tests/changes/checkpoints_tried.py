"""Puts checkpoints into texts, as if their activations were all made in given places."""

from __future__ import annotations

from vtpu.analysis.source.files import SourceFile, SourceFiles
from vtpu.changes.edits import render
from vtpu.changes.rewriting.checkpoints import has_checkpoint, with_checkpoint
from vtpu.changes.rewriting.policies import NOTHING, Policy
from vtpu.changes.source.repeats import Repeat, RepeatKind, find_repeats
from vtpu.changes.source.saved_activations import Saved
from vtpu.program.locations import Frame


class OneFile(SourceFiles):
    """A text as the user's only file, `prog.py`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.file = SourceFile("prog.py", text)

    def get(self, name: str) -> SourceFile | None:
        """The file, where that is meant."""
        return self.file if name == self.file.name else None


def frame(text: str, what: str, function: str, number: int = 0) -> Frame:
    """The frame of an expression in a text that stands on one line; of several alike the one of a number."""
    at = -1
    for _ in range(number + 1):
        at = text.index(what, at + 1)
    line = text.count("\n", 0, at) + 1
    start = text.rfind("\n", 0, at) + 1
    column = len(text[start:at].encode())
    return Frame("prog.py", function, line, column, line, column + len(what.encode()))


def saved(*frames: Frame, size: int = 1 << 20) -> Saved:
    """An activation that is made below some calls, the innermost first."""
    return Saved(bytes=size, op_name="jit(step)/jvp()/dot_general", dims=(8, 128), frames=frames)


def repeats(text: str, *activations: Saved) -> list[Repeat]:
    """The repeats of a text that activations are made in, in a program of `step`."""
    return find_repeats(activations, OneFile(text), "step")


def checkpointed(
    text: str, *activations: Saved, kind: RepeatKind | None = None, policy: Policy = NOTHING
) -> str:
    """A text with a checkpoint around the first repeat, or the first of a kind, which has none."""
    found = [r for r in repeats(text, *activations) if kind in (None, r.kind)]
    assert found
    assert not has_checkpoint(found[0])
    after = render(text, with_checkpoint(found[0], policy))
    compile(after, "prog.py", "exec")
    return after
