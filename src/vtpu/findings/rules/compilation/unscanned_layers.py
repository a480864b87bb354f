"""Equal layers in a Python loop, which the compiler gets one by one."""

from __future__ import annotations

from collections.abc import Iterable

from vtpu.analysis.program.repeated_layers import RepeatedLayers, find_repeated_layers
from vtpu.analysis.source_lines import UserLines
from vtpu.evidence import Basis
from vtpu.findings.finding import Cost, Evidence, Finding, Severity, count, seconds, share
from vtpu.findings.rule import Group, Rule
from vtpu.findings.subjects import ProgramSubject
from vtpu.units import format_seconds

#: A decoder with its gradient whose layers are scanned compiled as long as six unrolled layers, for 12 and
#: for 24 layers (libtpu 0.0.50, v5e, measured for this rule).
_LAYERS_OF_A_SCAN = 6
_LEAST_S = 1.0
_LONG_S = 30.0
_MOST_OF_IT = 0.5  # of the matrix products


def find(subject: ProgramSubject) -> Iterable[Finding]:
    """One finding for a program that is mostly copies of a layer and slow to compile."""
    compile_s = subject.report.origin.compile_s
    if subject.module is None or compile_s is None:
        return
    layers = find_repeated_layers(subject.module, subject.report.lines or UserLines())
    if layers is None or layers.share < _MOST_OF_IT:
        return
    saved = compile_s * layers.share * max(0.0, 1 - _LAYERS_OF_A_SCAN / layers.times)
    if saved >= _LEAST_S:
        yield _finding(subject, layers, compile_s, saved)


def _finding(
    subject: ProgramSubject, layers: RepeatedLayers, compile_s: float, saved: float
) -> Finding:
    name = f" (`{layers.name}`)" if layers.name else ""
    return Finding(
        rule=RULE.slug,
        severity=Severity.MEDIUM if saved >= _LONG_S else Severity.LOW,
        title=f"the same layer{name} stands {layers.times} times in {subject.name}, which took {format_seconds(compile_s)} "
        f"to compile: scanned it would take about {format_seconds(compile_s - saved)}",
        change=f"stack the weights of the {layers.times} layers (`jax.tree.map(lambda *w: jnp.stack(w), *layers)`) and run them "
        "with `jax.lax.scan`; in Flax `nn.scan` or `nnx.scan`, in Equinox a vmapped constructor with `scan`",
        evidence=(
            Evidence(what="copies of the layer", amount=count(layers.times, Basis.COMPILER), line=layers.line),
            Evidence(what="matrix products in each", amount=count(layers.products, Basis.COMPILER)),
            Evidence(what="of all matrix products", amount=share(layers.share, Basis.COMPILER)),
            Evidence(what="compiling took", amount=seconds(compile_s, Basis.MEASURED)),
            Evidence(what="of that a scan would save", amount=seconds(saved)),
        ),
        cost=Cost(once=seconds(saved)),
        line=layers.line,
        program=subject.name,
    )  # fmt: skip


RULE = Rule(
    code="C309",
    slug="unscanned-layers",
    group=Group.COMPILATION,
    title="Equal layers are unrolled, which makes compiling slow",
    why="A Python loop over layers writes each of them into the program: compiling takes as many times as long, and "
    "so does tracing, for each shape anew. Under `jax.lax.scan` the compiler sees one layer.",
    change="Stack the layers' weights along a new leading axis and scan over it.",
    limits="Copies are matrix products of one line, one path of names and one size, twelve of them at least. How long a "
    "scanned program compiles is a rule of thumb from one decoder. An unrolled program may run faster: XLA overlaps "
    "the collectives and copies of one layer with the next, and a scan keeps saved activations stacked.",
    in_program=find,
)
