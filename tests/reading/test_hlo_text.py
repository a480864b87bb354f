"""HLO text through jaxlib's parser, the only module that knows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.program.shapes import leaves
from vtpu.reading.hlo_text import HloTextError, read_hlo_text

TEXT = """\
HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, \
entry_computation_layout={(f32[8,100]{1,0:T(8,128)}, f32[])->(f32[8,100]{1,0:T(8,128)})}

FileNames
1 "train.py"

FunctionNames
1 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %main (w: f32[8,100], s: f32[]) -> (f32[8,100]) {
  %w = f32[8,100]{1,0:T(8,128)} parameter(0), metadata={op_name="params[\\'w\\']"}
  %s = f32[]{:T(128)} parameter(1), metadata={op_name="scale"}
  %b = f32[8,100]{1,0:T(8,128)} broadcast(%s), dimensions={}
  %m = f32[8,100]{1,0:T(8,128)} multiply(%w, %b), metadata={op_name="jit(step)/mul" stack_frame_id=1}
  ROOT %t = (f32[8,100]{1,0:T(8,128)}) tuple(%m)
}
"""


def test_a_module_has_its_schedule_aliases_layouts_and_lines() -> None:
    module = read_hlo_text(TEXT)
    assert (module.name, module.is_scheduled) == ("jit_step", True)
    assert [p.op_name for p in module.parameters()] == ["params['w']", "scale"]
    (alias,) = module.aliases
    assert (alias.output, alias.parameter) == ((0,), 0)
    (multiply,) = [i for i in module.by_id.values() if i.opcode == "multiply"]
    ((_, shape),) = leaves(multiply.shape)
    assert str(shape) == "f32[8,100]{1,0:T(8,128)}"
    (frame,) = module.frames(multiply)
    assert (frame.file, frame.function, frame.line) == ("train.py", "step", 12)


def test_a_text_that_is_none_has_the_parsers_reason() -> None:
    with pytest.raises(HloTextError, match="cannot parse as an instruction"):
        read_hlo_text("HloModule m\nENTRY main { ROOT a = f32[2] add(b, c) }\n")


def test_deep_nesting_is_refused_before_the_parser_sees_it() -> None:
    text = "HloModule m\nENTRY main { a = " + "(" * 100_000 + "f32[2]" + ")" * 100_000 + " p(0) }"
    with pytest.raises(HloTextError, match="nested"):
        read_hlo_text(text)


def test_the_parsers_own_output_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HloTextError):
        read_hlo_text(TEXT.replace("-> (f32[8,100]) {", "-> f32[] {").replace("{0}: (0", "{7}: (0"))
    assert capfd.readouterr().err == ""


@given(st.integers(0, len(TEXT)), st.text(max_size=5))
def test_damage_raises_nothing_else(at: int, inserted: str) -> None:
    for text in (TEXT[:at], TEXT[:at] + inserted + TEXT[at:]):
        try:
            read_hlo_text(text)
        except HloTextError as error:
            assert str(error)  # noqa: PT017, either is right
