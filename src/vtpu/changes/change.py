"""A change of a program as a value: what it edits, what it may do to the results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vtpu.changes.edits import Edit


class Numerics(StrEnum):
    """What a change does to the program's results, by design."""

    IDENTICAL = "identical"
    TOLERANCE = "equal within tolerance"  # sums in another order, another fusion
    DIFFERENT = "different by design"  # other types, shapes, batches


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentChange:
    """An argument that a function is compiled with differently. What is None stays as it is.

    `path` names the leaves: an argument's name with JAX's path behind it, `params['w']`; all leaves below
    one that is a tree. `spec` is a partition of each dimension over axes of the mesh that the argument, or
    another one, has; dimension `axis` gets the `size`.
    """

    path: str
    spec: tuple[str | tuple[str, ...] | None, ...] | None = None
    dtype: str | None = None
    memory_kind: str | None = None
    axis: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change. `kind` is the proposal's, `title` says it in the program's own names.

    `edits` make it permanent, and are what is tried. `arguments` are what a function is compiled with
    instead, where it is not its file that makes them: `advice` then says what to write.
    `environment` are variables to set. Of changes in one `group` only one can be made: other policies for the
    same call. `caution`: what it may change, for people. `expected_bytes` and `expected_s` are what it
    may save of HBM and of a step, as far as that can be told before; negative: it costs so much. `work` is how
    much more a step does than before, as with a larger batch.
    """

    kind: str
    title: str
    numerics: Numerics
    edits: tuple[Edit, ...] = ()
    arguments: tuple[ArgumentChange, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    group: str = ""
    advice: str = ""
    caution: str = ""
    expected_bytes: float | None = None
    expected_s: float | None = None
    work: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """A kind of change that cannot be made to this program, and why."""

    kind: str
    reason: str
