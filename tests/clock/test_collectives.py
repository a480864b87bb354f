"""What collectives need of the links."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtpu.clock.collectives import (
    Network,
    exchange_traffic,
    gather_traffic,
    permute_traffic,
    reduce_traffic,
)
from vtpu.clock.resources import Resource
from vtpu.clock.torus import Position, Torus, group_of

NETWORK = Network(
    link_bytes_per_s=1e9, hop_s=0.0, start_s=0.0, dcn_bytes_per_s=1e8, dcn_start_s=0.0
)
GB = 1_000_000_000


def _line(
    chips: int, *, wraps: bool = False, slices: int = 1
) -> tuple[Torus, tuple[Position, ...]]:
    torus = Torus((chips, 1, 1), (wraps, False, False))
    return torus, tuple(Position((i, 0, 0), s) for s in range(slices) for i in range(chips))


def test_a_ring_gathers_over_both_of_its_directions() -> None:
    line, ring = _line(4), _line(4, wraps=True)
    assert gather_traffic(4 * GB, group_of(*line), NETWORK).seconds == pytest.approx(3.0)
    assert gather_traffic(4 * GB, group_of(*ring), NETWORK).seconds == pytest.approx(1.5)


@given(st.integers(0, 10**12), st.integers(2, 8), st.booleans())
def test_a_sum_takes_a_scatter_and_a_gather(size: int, chips: int, wraps: bool) -> None:
    group = group_of(*_line(chips, wraps=wraps))
    once = gather_traffic(size, group, NETWORK).seconds
    twice = reduce_traffic(size, group, NETWORK).seconds
    assert once is not None
    assert twice == pytest.approx(2 * once, abs=1e-8)


@given(st.integers(1, 10**12), st.integers(2, 8))
def test_more_bytes_never_take_less(size: int, chips: int) -> None:
    group = group_of(*_line(chips))
    for traffic in (gather_traffic, reduce_traffic, exchange_traffic):
        less, more = (traffic(s, group, NETWORK).seconds for s in (size, 2 * size))
        assert less is not None
        assert more is not None
        assert less <= more


def test_an_exchange_is_bound_by_the_middle_of_the_line() -> None:
    # each of the 8 chips holds 1 GB: half of the 4 GB on either side cross the one link each way
    assert exchange_traffic(GB, group_of(*_line(8)), NETWORK).seconds == pytest.approx(2.0)
    assert exchange_traffic(GB, group_of(*_line(8, wraps=True)), NETWORK).seconds == pytest.approx(
        1
    )


def test_messages_that_share_a_link_share_its_rate() -> None:
    torus, _ = _line(4)
    pairs = [((0, 0, 0), (3, 0, 0)), ((1, 0, 0), (2, 0, 0))]
    assert permute_traffic(GB, torus, pairs, NETWORK).seconds == pytest.approx(2.0)


def test_a_message_to_itself_needs_no_link() -> None:
    torus, _ = _line(4)
    found = permute_traffic(GB, torus, [((0, 0, 0), (0, 0, 0))], NETWORK)
    assert (found.seconds, found.received_bytes) == (0.0, 0)


def test_between_slices_each_chip_brings_its_share_over_the_network() -> None:
    found = gather_traffic(4 * GB, group_of(*_line(4, slices=2)), NETWORK)
    assert found.bound is Resource.DCN
    assert found.seconds == pytest.approx(3.0 + 4 * GB / 2 / 4 / 1e8)


def test_a_network_that_nobody_published_leaves_the_time_unknown() -> None:
    network = Network(
        link_bytes_per_s=1e9, hop_s=0.0, start_s=0.0, dcn_bytes_per_s=None, dcn_start_s=0.0
    )
    assert gather_traffic(GB, group_of(*_line(4, slices=2)), network).seconds is None


def test_one_chip_alone_moves_nothing() -> None:
    found = gather_traffic(GB, group_of(*_line(1)), NETWORK)
    assert (found.seconds, found.received_bytes) == (0.0, 0)
