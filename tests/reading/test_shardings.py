"""Into how many parts a sharding cuts each dimension, against JAX's own reading of it."""

from __future__ import annotations

import numpy as np
import pytest
from jax._src.lib import xla_client  # pyright: ignore[reportPrivateImportUsage]

from vtpu.reading.shardings import parts_along, read_sharding

FORMS = {
    "replicated": (b"", 2, (1, 1)),
    "tiles": (b"\x08\x03\x1a\x02\x02\x04", 2, (2, 4)),
    "tiles, the rest in copies": (
        b"\x08\x03\x1a\x03\x04\x01\x020\x01J\x01\x08R\x01\x00",
        2,
        (4, 1),
    ),
    "on one device": (b"\x08\x01", 2, None),
    "named, replicated": (b"r\x02\x12\x00", 2, (1, 1)),
    "named, two axes on one dimension": (
        (
            b"r%\x12\x15\n\x05\n\x01a\x10\x02\n\x05\n\x01b\x10\x02\n\x05\n\x01c\x10\x02"
            b"\x1a\x08\n\x00\n\x02\x08\x01\x10\x01\x1a\x02\x10\x01"
        ),
        2,
        (4, 1),
    ),
    "named, three dimensions": (
        (
            b"r-\x12\x15\n\x05\n\x01a\x10\x02\n\x05\n\x01b\x10\x02\n\x05\n\x01c\x10\x02"
            b"\x1a\x08\n\x02\x08\x02\n\x00\x10\x01\x1a\x02\x10\x01\x1a\x06\n\x02\x08\x01\x10\x01"
        ),
        3,
        (4, 1, 2),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_sharding_says_into_how_many_parts_it_cuts(form):
    sharding, rank, parts = FORMS[form]
    assert parts_along(sharding, rank) == parts


@pytest.mark.parametrize("tiles", [(2, 1, 4), (8, 1), (1, 8), (4, 2), (1, 1, 8)])
def test_what_jax_writes_is_read(tiles):
    proto = xla_client.OpSharding()
    proto.type = xla_client.OpSharding.Type.OTHER
    proto.tile_assignment_dimensions = list(tiles)
    proto.tile_assignment_devices = list(range(int(np.prod(tiles))))
    proto.replicate_on_last_tile_dim = len(tiles) == 3
    assert parts_along(proto.SerializeToString(), 2) == tiles[:2]


def test_a_named_sharding_says_which_axes_of_the_mesh_cut_what():
    sharding, rank, _ = FORMS["named, three dimensions"]
    found = read_sharding(sharding, rank)
    assert found is not None
    assert found.axes == (("c", "a"), (), ("b",))
    assert found.mesh == (("a", 2), ("b", 2), ("c", 2))
    assert found.pieces == 8
    assert found.used_axes == {"a", "b", "c"}


def test_tiles_have_no_names():
    found = read_sharding(FORMS["tiles"][0], 2)
    assert found is not None
    assert found.axes is None
    assert found.used_axes == set()
