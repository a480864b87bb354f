"""What a trial finds when the variant, or the compiler with it, goes down."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtpu.changes.target import read_target
from vtpu.fixing.processes import Processes
from vtpu.fixing.verification import Variant, Verifier

PROGRAM = """
import jax
import jax.numpy as jnp

def options():
    return {}

step = jax.jit(jnp.tanh, compiler_options=options())
args = (jax.ShapeDtypeStruct((256, 256), jnp.float32),)

if __name__ == "__main__":
    step(jnp.ones((256, 256)))
"""
KILLED = PROGRAM.replace("return {}", "import os; os.abort()")
UNKNOWN = PROGRAM.replace("return {}", 'return {"xla_no_such_option": True}')


@pytest.mark.parametrize("target", ["prog.py", "prog.py:step"])
def test_a_variant_that_goes_down_is_told_and_the_next_one_is_measured(
    target: str, tmp_path: Path
) -> None:
    path = tmp_path / "prog.py"
    path.write_text(PROGRAM)
    verifier = Verifier(read_target(target, str(tmp_path)), "v5e:1x1", Processes())
    try:
        errors = [
            verifier.measure(Variant(texts={str(path): text}), 300).figures.error
            for text in (KILLED, UNKNOWN)
        ]
        as_it_is = verifier.measure(Variant(), 300).figures
    finally:
        verifier.close()
    assert "exit code" in (errors[0] or "")
    assert "xla_no_such_option" in (errors[1] or "")
    assert (as_it_is.fits, as_it_is.error) == (True, None)
