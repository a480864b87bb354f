"""Callbacks about shardings, from one process to another."""

from vtpu.compiler.inspections import CALLBACK_BYTES, Inspector, placeholder, report_sharding


def test_a_placeholder_is_as_long_as_what_it_stands_for():
    assert len(placeholder(0)) == len(placeholder(9999)) == CALLBACK_BYTES


def test_a_program_without_placeholders_stays_as_it_is():
    assert Inspector().install(b"module") == b"module"


def test_each_placeholder_becomes_a_callback_that_keeps_the_sharding_under_its_number():
    inspector = Inspector()
    code = inspector.install(b"a" + placeholder(3) + b"b" + placeholder(12))
    assert len(code) == 2 + 2 * CALLBACK_BYTES
    assert report_sharding(code[1 : 1 + CALLBACK_BYTES], b"devices\0and more") is None
    assert report_sharding(code[-CALLBACK_BYTES:], b"") is None
    assert inspector.inspected == [(3, b"devices\0and more"), (12, b"")]
