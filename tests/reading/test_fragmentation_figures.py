"""libtpu's own figures of fragmentation, from its log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vtpu.reading.fragmentation_figures import read_fragmentation_figures
from vtpu.units import KIB, MIB

LOG = """\
I1130 11:47:29.542485    8276 x.cc:2175] Program sflag requirement 256B:
    reserved           204B
    HLO temp            24B (100.0% utilization: Unpadded (24B) Padded (24B), 0.0% fragmentation (0B))
Program hbm requirement 139.76M:
    HLO temp        122.50M (96.3% utilization: Unpadded (115.16M) Padded (119.50M), -2.4% fragmentation (-3.25M))
    overlays         17.32M
Program smem requirement 4.1K:
    scoped             4.1K
"""


def test_each_space_has_its_figures_and_they_may_be_negative() -> None:
    found = read_fragmentation_figures(LOG)
    assert found.keys() == {"sflag", "hbm"}
    assert found["hbm"].total_bytes == 122.5 * MIB
    assert found["hbm"].padded_bytes == 119.5 * MIB
    assert found["hbm"].fragmentation_bytes == -3.25 * MIB
    assert found["sflag"].padded_bytes == 24


def test_the_last_compile_counts() -> None:
    again = LOG.replace("(-3.25M)", "(578.5K)")
    assert read_fragmentation_figures(LOG + again)["hbm"].fragmentation_bytes == 578.5 * KIB


@given(st.text() | st.integers(0, len(LOG)).map(lambda n: LOG[:n]))
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert read_fragmentation_figures(text).keys() <= {"sflag", "hbm"}
