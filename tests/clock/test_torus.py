"""Places and links of a torus."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from vtpu.clock.torus import Position, Torus, group_of, heaviest_link

sizes = st.integers(1, 6)
tori = st.builds(
    Torus, st.tuples(sizes, sizes, sizes), st.tuples(st.booleans(), st.booleans(), st.booleans())
)


@st.composite
def two_chips(draw: st.DrawFn) -> tuple[Torus, tuple[int, int, int], tuple[int, int, int]]:
    torus = draw(tori)
    places = [st.integers(0, size - 1) for size in torus.bounds]
    return torus, draw(st.tuples(*places)), draw(st.tuples(*places))


@given(two_chips())
def test_a_way_has_as_many_links_as_its_ends_are_apart(
    found: tuple[Torus, tuple[int, int, int], tuple[int, int, int]],
) -> None:
    torus, a, b = found
    assert len(list(torus.route(a, b))) == torus.distance(a, b) == torus.distance(b, a)


@given(two_chips())
def test_no_way_is_longer_than_without_wrapping_around(
    found: tuple[Torus, tuple[int, int, int], tuple[int, int, int]],
) -> None:
    torus, a, b = found
    mesh = Torus(torus.bounds, (False, False, False))
    assert torus.distance(a, b) <= mesh.distance(a, b)


def _chips(bounds: tuple[int, int, int]) -> tuple[Position, ...]:
    return tuple(Position((x, y, z)) for z, y, x in product(*map(range, reversed(bounds))))


def test_the_corners_of_a_mesh_have_one_link_along_each_axis() -> None:
    group = group_of(Torus((2, 4, 1), (False, False, False)), _chips((2, 4, 1)))
    assert (group.chips, group.links, group.farthest, group.is_box) == (8, 2, 4, True)


def test_an_axis_that_wraps_around_has_two_links() -> None:
    group = group_of(Torus((16, 16, 1), (True, True, False)), _chips((16, 16, 1)))
    assert (group.links, group.farthest) == (4, 16)


def test_a_part_of_a_ring_is_no_ring() -> None:
    torus = Torus((4, 1, 1), (True, False, False))
    assert group_of(torus, _chips((4, 1, 1))).spans[0].is_ring
    assert not group_of(torus, _chips((2, 1, 1))).spans[0].is_ring


def test_groups_that_stand_between_each_other_share_their_links() -> None:
    torus = Torus((4, 4, 1), (False, False, False))
    every_other = tuple(Position((x, y, 0)) for y in (0, 2) for x in (0, 2))
    group = group_of(torus, every_other)
    assert (group.is_box, group.links) == (True, 1)
    assert group_of(torus, _chips((2, 2, 1))).links == 2


def test_chips_that_are_no_box_are_taken_to_have_one_link() -> None:
    torus = Torus((4, 4, 1), (False, False, False))
    group = group_of(torus, (Position((0, 0, 0)), Position((1, 1, 0)), Position((2, 0, 0))))
    assert (group.is_box, group.links) == (False, 1)
    assert group.farthest == 3


def test_two_cores_of_a_chip_need_no_link() -> None:
    both = (Position((0, 0, 0), core=0), Position((0, 0, 0), core=1))
    group = group_of(Torus((2, 2, 1), (False, False, False)), both)
    assert (group.chips, group.spans) == (1, ())


def test_neighbours_on_a_ring_share_no_link() -> None:
    torus = Torus((4, 1, 1), (True, False, False))
    pairs = [((i, 0, 0), ((i + 1) % 4, 0, 0)) for i in range(4)]
    assert heaviest_link(torus, pairs) == (1, 1)


def test_messages_through_the_middle_share_a_link() -> None:
    torus = Torus((4, 1, 1), (False, False, False))
    assert heaviest_link(torus, [((0, 0, 0), (3, 0, 0)), ((1, 0, 0), (2, 0, 0))]) == (2, 3)
