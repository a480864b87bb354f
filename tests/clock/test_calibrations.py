"""Constants of the time model, and the compiler's hints."""

from dataclasses import replace

import pytest

from hlo_texts import module_of
from vtpu.chips.generations import GENERATION_NAMES
from vtpu.clock.calibrations import calibration_of, read_calibration, shared_calibration
from vtpu.clock.hints import Hints, hints_of


@pytest.mark.parametrize("generation", GENERATION_NAMES)
def test_every_generation_has_constants_with_their_provenance(generation: str) -> None:
    found = calibration_of(generation)
    assert found.generation == generation
    assert found.provenance
    assert 0 < found.mxu <= 1
    assert 0 < found.hbm <= 1
    assert 0 < found.program_error < 0.5


def test_a_generation_without_measurements_says_so() -> None:
    assert calibration_of("v4").measurements == 0
    assert "not measured" in calibration_of("v4").provenance


def test_a_file_with_other_constants_is_refused() -> None:
    with pytest.raises(ValueError, match="speed"):
        read_calibration("v5e", {"speed": 1.0})


def test_what_is_shared_is_the_same_for_all() -> None:
    found = calibration_of("v5e")
    assert replace(shared_calibration(), generation="v5e").hbm == found.hbm


CONFIG = (
    b'{"window_config":{"kernel_window_bounds":["64","16"],"output_window_bounds":["171","16"],'
    b'"estimated_cycles":"2977840","iteration_bounds":["4","6","16"]},'
    b'"convolution_algorithm_config":{"emitter":"EmitAllBatchInSublanes"}}'
)


def _hints(attributes: bytes) -> Hints:
    module = module_of("ROOT a = f32[8] parameter(0)")
    (instruction,) = module.by_id.values()
    return hints_of(replace(instruction, attributes=attributes))


def test_the_compilers_hints_are_read() -> None:
    found = _hints(CONFIG)
    assert found.estimated_cycles == 2977840
    assert found.steps == 4 * 6 * 16


def test_the_largest_number_of_cycles_means_that_the_compiler_cannot_tell() -> None:
    assert _hints(CONFIG.replace(b"2977840", b"9223372036854775807")).estimated_cycles is None


@pytest.mark.parametrize(
    "attributes", [b"", b"{", b"[1]", b"\x0a\x03abc", b'{"window_config":null}']
)
def test_hints_in_another_form_are_none(attributes: bytes) -> None:
    assert _hints(attributes) == Hints()
