"""How arguments lie on a mesh: what could be cut and how, what does not divide, who does the same work."""

from __future__ import annotations

from vtpu.analysis.program.gathered import find_gathered
from vtpu.analysis.program.memory import analyse_memory
from vtpu.analysis.program.redundancy import find_redundancy
from vtpu.analysis.program.spread import Spread, find_undivided, spec_text, spreads_of
from vtpu.program.memory import (
    Allocation,
    AllocationKind,
    BufferAssignment,
    LogicalBuffer,
    Placed,
    ProgramMemory,
)
from vtpu.program.modules import Computation, Instruction, Module
from vtpu.program.operations import Collective
from vtpu.program.shapes import ArrayShape, parse_shape
from vtpu.program.shardings import Sharding

MESH = (("data", 4), ("model", 2))


def shape(*dims: int) -> ArrayShape:
    """An array in tiles."""
    order = ",".join(map(str, reversed(range(len(dims)))))
    found = parse_shape(f"f32[{','.join(map(str, dims))}]{{{order}:T(8,128)}}")
    assert isinstance(found, ArrayShape)
    return found


def cut(*axes: str | None, mesh: tuple[tuple[str, int], ...] = MESH) -> Sharding:
    """A sharding by the axis of each dimension."""
    names = tuple((axis,) if axis else () for axis in axes)
    parts = tuple(dict(mesh)[axis] if axis else 1 for axis in axes)
    return Sharding(parts=parts, axes=names, mesh=mesh if any(axes) else ())


def tiles(*parts: int) -> Sharding:
    """A sharding as older compilers write it, without names."""
    return Sharding(parts=parts)


def module(
    arguments: dict[str, tuple[ArrayShape, Sharding]],
    results: tuple[tuple[ArrayShape, Sharding], ...] = (),
    *between: Instruction,
) -> Module:
    """A program on 8 devices with arguments by name and its results."""
    parameters = [
        Instruction(
            id=n, name=f"p.{n}", opcode="parameter", shape=s, op_name=name, parameter_number=n
        )
        for n, (name, (s, _)) in enumerate(arguments.items())
    ]
    root = Instruction(id=99, name="tuple", opcode="tuple", shape=tuple(s for s, _ in results))
    return Module(
        name="jit_step",
        entry=1,
        computations={1: Computation(id=1, name="main", instructions=(*parameters, *between, root), root=99)},
        devices=tuple(range(8)),
        parameter_shardings=tuple(sharding for _, sharding in arguments.values()),
        result_shardings=tuple(sharding for _, sharding in results),
    )  # fmt: skip


def spreads(arguments: dict[str, tuple[ArrayShape, Sharding]]) -> tuple[Spread, ...]:
    """The arguments of a program, each in an allocation of its own."""
    program = module(arguments)
    sizes = [s.padded_bytes for s, _ in arguments.values()]
    assignment = BufferAssignment(
        buffers={n: LogicalBuffer(id=n, size=s, color=0, instruction=n) for n, s in enumerate(sizes)},
        allocations=tuple(
            Allocation(
                index=n, size=s, color=0, kind=AllocationKind.ARGUMENT, parameter=n, placed=(Placed(n, 0, s),)
            )
            for n, s in enumerate(sizes)
        ),
    )  # fmt: skip
    usage = analyse_memory(ProgramMemory(module=program, assignment=assignment))
    assert usage.hbm is not None
    return spreads_of(program, assignment, usage.hbm, 8)


ADD = Instruction(id=50, name="add", opcode="add", shape=shape(8, 8))


# ---- arguments ---------------------------------------------------------------------------------


def test_an_argument_knows_how_many_devices_have_a_copy_and_over_which_axes() -> None:
    by_name = {
        s.item.name: s
        for s in spreads(
            {
                "params['w']": (shape(512, 1024), cut(None, "model")),
                "params['b']": (shape(512, 1024), cut(None, None)),
            }
        )
    }
    assert by_name["params['w']"].copies == 4
    assert by_name["params['w']"].free_axes == (("data", 4),)
    assert by_name["params['b']"].copies == 8
    assert by_name["params['b']"].free_axes == MESH


def test_the_best_split_is_into_most_parts_along_the_largest_dimension_that_divides() -> None:
    first, second, third = (
        spreads({name: (s, cut(*[None] * len(s.dims))), "params['z']": (shape(64, 64), cut("data", None))})[0]
        for name, s in {
            "params['a']": shape(96, 4096, 8192), "params['b']": shape(4100, 4098), "params['c']": shape(4099, 4097),
        }.items()
    )  # fmt: skip
    split = first.best_split()
    assert split is not None
    assert (split.dimension, split.parts) == (2, 8)
    assert first.spec(split) == 'P(None, None, ("data", "model"))'
    split = second.best_split()
    assert split is not None
    assert (split.dimension, split.parts, split.axes) == (0, 4, ("data",))
    assert third.best_split() is None


def test_a_split_keeps_the_axes_that_cut_already() -> None:
    (spread,) = spreads({"params": (shape(512, 1024), cut(None, "model"))})
    split = spread.best_split()
    assert split is not None
    assert spread.spec(split) == 'P(None, ("model", "data"))'
    assert spec_text(spread.sharding) == 'P(None, "model")'


def test_without_names_of_axes_a_split_says_dimension_and_parts() -> None:
    (spread,) = spreads({"params": (shape(512, 1024), tiles(1, 1))})
    split = spread.best_split()
    assert split is not None
    assert spread.spec(split) == "dimension 1 cut into 8"


# ---- what does not divide ----------------------------------------------------------------------


def test_a_whole_array_whose_dimension_does_not_divide_stands_out_among_cut_ones() -> None:
    layers = {f"params['l{n}']": (shape(1024, 1024), cut("data", None)) for n in range(3)}
    embedding = {"params['embedding']": (shape(50257, 256), cut(None, None))}
    (found,) = find_undivided(spreads({**layers, **embedding}))
    assert found.spread.item.name == "params['embedding']"
    assert (found.dimension, found.axis, found.parts) == (0, "data", 4)
    assert found.padded == 50304
    divides = {"params['embedding']": (shape(50304, 256), cut(None, None))}
    assert find_undivided(spreads({**layers, **divides})) == ()


def test_beside_one_array_that_differs_in_this_dimension_only_it_stands_out_too() -> None:
    items = {"params['items']": (shape(80000, 128), cut("data", None))}
    users = {"params['users']": (shape(49999, 128), cut(None, None))}
    (found,) = find_undivided(spreads({**items, **users}))
    assert (found.spread.item.name, found.others) == ("params['users']", 1)
    other = {"params['items']": (shape(80000, 256), cut("data", None))}
    assert find_undivided(spreads({**other, **users})) == ()


def test_where_most_of_the_state_is_whole_nothing_stands_out() -> None:
    layers = {f"params['l{n}']": (shape(1024, 1024), cut(None, None)) for n in range(9)}
    few = {f"params['c{n}']": (shape(256, 256), cut("data", None)) for n in range(3)}
    embedding = {"params['embedding']": (shape(50257, 256), cut(None, None))}
    assert find_undivided(spreads({**layers, **few, **embedding})) == ()


# ---- devices that do the same ------------------------------------------------------------------


def all_reduce(*groups: tuple[int, ...]) -> Instruction:
    return Instruction(
        id=51, name="ar", opcode="all-reduce", shape=shape(8, 8), collective=Collective(groups=groups, channel=1)
    )  # fmt: skip


def test_devices_that_nothing_tells_apart_do_the_same() -> None:
    program = module(
        {"x": (shape(64, 64), cut(None, None))}, ((shape(64, 64), cut(None, None)),), ADD
    )
    found = find_redundancy(program, 8)
    assert found is not None
    assert found.times == 8


def test_an_axis_that_cuts_nothing_and_moves_nothing_does_the_same() -> None:
    weights = (shape(64, 32), cut(None, "model"))
    rows = {"weights": weights, "x": (shape(64, 64), cut(None, None))}
    pairs = all_reduce((0, 1), (2, 3), (4, 5), (6, 7))  # along the model axis
    found = find_redundancy(module(rows, ((shape(64, 64), cut(None, None)),), ADD, pairs), 8)
    assert found is not None
    assert (found.axis, found.times) == ("data", 4)


def test_devices_that_talk_along_an_axis_do_not_do_the_same() -> None:
    rows = {"weights": (shape(64, 32), cut(None, "model")), "x": (shape(64, 64), cut(None, None))}
    across = all_reduce((0, 1, 2, 3, 4, 5, 6, 7))
    assert (
        find_redundancy(module(rows, ((shape(64, 64), cut(None, None)),), ADD, across), 8) is None
    )


def test_a_program_that_asks_for_its_number_does_not_do_the_same() -> None:
    number = Instruction(id=52, name="id", opcode="partition-id", shape=None)
    rows = {"x": (shape(64, 64), cut(None, None))}
    assert (
        find_redundancy(module(rows, ((shape(64, 64), cut(None, None)),), ADD, number), 8) is None
    )


# ---- results that are gathered -----------------------------------------------------------------


def test_a_result_in_fewer_pieces_than_its_argument_is_gathered() -> None:
    program = module(
        {"state": (shape(64, 1024), cut("data", None))}, ((shape(256, 1024), cut(None, None)),), ADD
    )
    (found,) = find_gathered(program)
    assert (found.argument, found.result, found.fewer) == ("state", 0, 4)
    assert found.more_bytes == (256 - 64) * 1024 * 4


def test_an_argument_that_goes_out_as_it_came_in_explains_no_other_result() -> None:
    state = (shape(64, 1024), cut("data", None))
    program = module({"state": state}, (state, (shape(256, 1024), cut(None, None))), ADD)
    assert find_gathered(program) == ()


def test_a_program_that_only_gathers_is_meant_to() -> None:
    program = module(
        {"state": (shape(64, 1024), cut("data", None))}, ((shape(256, 1024), cut(None, None)),)
    )
    assert find_gathered(program) == ()
