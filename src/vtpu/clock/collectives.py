"""How long a collective takes on the links of the torus and between slices.

Each has two bounds: what a chip must receive over the links that it has to others of its group, and what
must cross the middle of the group. To that come the hops to the farthest member. The algorithms are the
bandwidth-optimal ones for tori (rings along every axis at once, both ways); see the scaling book's chapter
on sharded matrices, jax-ml/scaling-book@0819a7d `sharding.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtpu.clock.resources import Resource
from vtpu.clock.torus import Coords, Group, Torus, heaviest_link


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What links carry: bytes per second one way over one link, seconds per hop and per start.

    `dcn_bytes_per_s` is per chip, one way. Rates are None when no source gives them.
    """

    link_bytes_per_s: float | None
    hop_s: float
    start_s: float
    dcn_bytes_per_s: float | None
    dcn_start_s: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a collective needs of the network: seconds by resource, bytes that a chip receives.

    `seconds` is None when a figure of the network is unknown.
    """

    seconds: float | None
    bound: Resource
    received_bytes: int


def gather_traffic(whole_bytes: int, group: Group, network: Network) -> Traffic:
    """All members get all parts; `whole_bytes` are those of the result on one device.

    A reduce-scatter of as many bytes takes as long: the same parts go the other way and are added.
    """
    received = whole_bytes * (group.chips - 1) // group.chips
    within = _carried(received / group.links, group, network)
    return _with_other_slices(within, received, whole_bytes, group, network)


def reduce_traffic(whole_bytes: int, group: Group, network: Network) -> Traffic:
    """All members get the sum: a reduce-scatter, then an all-gather."""
    received = 2 * whole_bytes * (group.chips - 1) // group.chips
    within = _carried(received / group.links, group, network)
    return _with_other_slices(within, received, 2 * whole_bytes, group, network)


def exchange_traffic(local_bytes: int, group: Group, network: Network) -> Traffic:
    """All-to-all: every member sends a part of its `local_bytes` to every other.

    Half of what all chips hold crosses the middle of each axis, half of it each way; the links there
    are one per row of chips, two where the axis closes a ring.
    """
    received = local_bytes * (group.chips - 1) // group.chips
    crossing = max(
        (local_bytes * span.chips / 4 / span.links for span in group.spans),
        default=float(received),
    )
    within = _carried(max(crossing, received / group.links), group, network)
    return _with_other_slices(within, received, local_bytes, group, network)


def permute_traffic(
    local_bytes: int, torus: Torus, pairs: Sequence[tuple[Coords, Coords]], network: Network
) -> Traffic:
    """Every sender's `local_bytes` go to its receiver; messages that share a link share its rate."""
    load, hops = heaviest_link(torus, pairs)
    if load and network.link_bytes_per_s is None:
        return Traffic(None, Resource.ICI, local_bytes)
    carried = load * local_bytes / network.link_bytes_per_s if network.link_bytes_per_s else 0.0
    seconds = carried + hops * network.hop_s + network.start_s
    return Traffic(seconds, Resource.ICI, local_bytes if load else 0)


def _carried(link_bytes: float, group: Group, network: Network) -> float | None:
    """Seconds for so many bytes over one link; a group on one chip needs none."""
    if group.chips == 1:
        return 0.0
    return link_bytes / network.link_bytes_per_s if network.link_bytes_per_s else None


def _with_other_slices(
    within: float | None, received: int, whole_bytes: int, group: Group, network: Network
) -> Traffic:
    """Adds starts and hops, and between slices what each chip's share must cross the DCN."""
    if within is None:
        return Traffic(None, Resource.ICI, received)
    seconds = within + network.start_s + group.farthest * network.hop_s
    if group.slices == 1:
        return Traffic(seconds, Resource.ICI, received)
    share = whole_bytes * (group.slices - 1) // group.slices // group.chips
    if network.dcn_bytes_per_s is None:
        return Traffic(None, Resource.DCN, received + share)
    between = share / network.dcn_bytes_per_s + network.dcn_start_s
    bound = Resource.DCN if between > seconds else Resource.ICI
    return Traffic(seconds + between, bound, received + share)
