"""Loops that pick among values: unrolled, each value is computed once, and nothing is left of the picking."""

import functools
import math
from collections.abc import Callable, Iterator

import halide as hl
import pytest
from small_pipelines import SOME_TARGET, C, X, Y, finish, func_named, image, make_space

from metol import _core
from metol.lower import Call, cpu_directives
from metol.pipeline import PipelineDag, extract, op_classes

WAYS = 9
SIZE = 256, 256
ROLLOUTS = 300
OPERATIONS = 12
FEW = 4


def values(source: hl.ImageParam, ways: int = WAYS, operations: int = OPERATIONS) -> list[hl.Expr]:
    """Long expressions, none of which has anything in common with another."""
    return [
        functools.reduce(lambda a, b: a * source[X, Y] + b, [hl.i32(way * 100 + i) for i in range(operations)])
        for way in range(ways)
    ]


def picked(ways: int = WAYS, operations: int = OPERATIONS) -> hl.Pipeline:
    """One of several values, by the outermost loop."""
    output = hl.Func("output")
    output[X, Y, C] = hl.mux(C, values(image(*SIZE), ways, operations))
    return finish(output, sizes=(*SIZE, ways))


def picked_inside() -> hl.Pipeline:
    """The same in a Func that its reader may hold."""
    inner, output = hl.Func("inner"), hl.Func("output")
    inner[X, Y, C] = hl.mux(C, values(image(*SIZE)))
    output[X, Y, C] = inner[X, Y, C] + C
    return finish(output, sizes=(*SIZE, WAYS))


def outputs(dag: PipelineDag) -> Iterator[tuple[_core.States, _core.StageNest, dict[str, float]]]:
    """The output in random loop nests: its nest, and its features."""
    space = make_space(dag, target=SOME_TARGET)
    stage = dag.funcs[func_named(dag, "output")].stages[0]
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for leaf in (leaves.take([i]) for i in range(ROLLOUTS)):
        (rows,) = space.featurize(leaf)
        (nest,) = leaf.describe()[func_named(dag, "output")].stages
        yield leaf, nest, dict(zip(space.feature_table(), map(float, rows[stage]), strict=True))


def test_a_tile_holds_all_values_that_a_loop_picks_among() -> None:
    assert any(nest.levels[-1][2] == WAYS for _, nest, _ in outputs(extract(picked())))


def test_each_value_is_computed_once_a_tile() -> None:
    points = math.prod(SIZE) * WAYS
    found = {
        nest.levels[-1][2] == WAYS: row["num_vectors"] * row["vector_size"] + row["num_scalars"]
        for _, nest, row in outputs(extract(picked()))
        if nest.levels[-1][2] in (1, WAYS) and math.prod(nest.levels[-1][:2]) == nest.vector_width > 1
    }
    assert found[False] >= points
    assert found[True] == pytest.approx(points / WAYS, rel=0.1)


def test_loads_stay_what_they_are() -> None:
    loads = {
        nest.levels[-1][2]: row["vector_loads_per_vector"] * row["num_vectors"]
        for _, nest, row in outputs(extract(picked()))
        if nest.levels[-1][2] in (1, WAYS) and math.prod(nest.levels[-1][:2]) == nest.vector_width == 8
    }
    assert loads[1] == pytest.approx(WAYS * loads[WAYS], rel=0.1)


def holds_inner(dag: PipelineDag, leaf: _core.States) -> bool:
    """Is there nothing but the output to compute?"""
    return all(
        schedule.placement == _core.Placement.INLINE
        for func, schedule in zip(dag.funcs, leaf.describe(), strict=True)
        if not (func.is_output or func.is_input)
    )


@pytest.mark.parametrize("build", [picked, picked_inside])
def test_there_is_a_version_in_which_the_loop_begins_at_a_number(build: Callable[[], hl.Pipeline]) -> None:
    dag = extract(build())
    whole = [leaf for leaf, nest, _ in outputs(dag) if nest.levels[-1][2] == WAYS and holds_inner(dag, leaf)]
    assert whole
    for leaf in whole:
        directives = cpu_directives(dag, leaf.describe())
        assert [d.args for d in directives if d.call is Call.SPECIALIZE_SIZE] == [(2, 0, WAYS)]


def test_what_is_picked_goes_innermost() -> None:
    dag = extract(picked(FEW, 4))
    found = [(leaf, nest) for leaf, nest, _ in outputs(dag) if nest.levels[-1][2] == FEW < points_of(nest)]
    assert found
    for leaf, _ in found:
        (order,) = {
            d.args for d in cpu_directives(dag, leaf.describe()) if d.call is Call.REORDER and d.branch == (0, 0)
        }
        assert [loop.name.split("_")[0] for loop in order[:2]] == ["x", "c"]  # type: ignore[union-attr]


def points_of(nest: _core.StageNest) -> float:
    """Vectors of the tile."""
    return math.prod(nest.levels[-1]) / nest.vector_width


def test_no_rows_are_unrolled_around_what_is_picked() -> None:
    tiles = [nest.levels[-1][:3] for _, nest, _ in outputs(extract(picked(FEW, 4)))]
    assert {y for _, y, c in tiles if c == 1} > {1}
    assert {y for _, y, c in tiles if c == FEW} == {1}


def picked_from_the_fourth_loop(ways: int) -> hl.Pipeline:
    """One of several values, by a loop around three others."""
    output, z = hl.Func("output"), hl.Var("z")
    output[X, Y, C, z] = hl.mux(z, [value * C for value in values(image(*SIZE), ways, 4)])
    return finish(output, sizes=(*SIZE, 40, ways))


@pytest.mark.parametrize("ways", [4, 27])
def test_what_picks_may_be_unrolled_from_far_outside(ways: int) -> None:
    assert any(nest.levels[-1][3] == ways for _, nest, _ in outputs(extract(picked_from_the_fourth_loop(ways))))


def test_a_select_by_what_is_read_picks_by_no_loop() -> None:
    source, output = image(*SIZE), hl.Func("output")
    output[X, Y] = hl.select(source[X, Y] > 3, X, Y)
    dag = extract(finish(output, sizes=SIZE))
    assert dag.stages[dag.funcs[func_named(dag, "output")].stages[0]].picking_loops == [False, False]


def is_picking(value: hl.Expr) -> bool:
    """Does the loop of an output pick among what it computes?"""
    output = hl.Func("output")
    output[X, Y, C] = value
    dag = extract(finish(output, sizes=(*SIZE, 3)))
    return dag.stages[dag.funcs[func_named(dag, "output")].stages[0]].picking_loops[2]


def test_a_loop_picks_by_mux_or_by_equality_with_numbers() -> None:
    first, second, third = values(image(*SIZE), 3)
    assert is_picking(hl.mux(C, [first, second, third]))
    assert is_picking(hl.select(C == 0, first, C == 1, second, third))
    assert is_picking(hl.u8(hl.select((C == 0) | (C == 2), first, second)))
    assert not is_picking(hl.select(C < 1, first, second))
    assert not is_picking(hl.select(C == X, first, second))
    assert not is_picking(hl.select(C % 2 == 0, first, second))


def test_a_loop_picks_only_where_that_is_most_of_what_is_computed() -> None:
    source = image(*SIZE)
    reds = [source[X + way, Y] for way in range(3)]
    assert not is_picking(hl.mux(C, reds))
    assert not is_picking(
        functools.reduce(lambda a, b: a * source[X, Y] + b, [hl.mux(C, [reds[0] + 1, *reds[1:]])] * 4)
    )


def test_a_long_loop_is_not_unrolled_for_what_it_picks() -> None:
    source, output = image(SIZE[1]), hl.Func("output")
    output[X, Y] = hl.select(X == 0, source[Y] * 3 + 7, source[Y] * 5 + 1)
    dag = extract(finish(output, sizes=SIZE))
    stage = dag.funcs[func_named(dag, "output")].stages[0]
    assert dag.stages[stage].picking_loops == [True, False]
    space = make_space(dag, target=SOME_TARGET)
    leaf = space.rollout(space.root(), [0])
    _, _, picking, _ = _core.cpu_loop_plans(dag, leaf.describe())
    assert picking[stage] == []


def test_operations_are_told_apart_by_loops() -> None:
    source, output = image(*SIZE), hl.Func("output")
    output[X, Y, C] = hl.select(C == 0, source[X, Y] * 7, source[X, Y] + C)
    dag = extract(finish(output, sizes=(*SIZE, 2)))
    stage = dag.stages[dag.funcs[func_named(dag, "output")].stages[0]]
    names = [info.name for info in op_classes()]
    found = {
        names[i]: (part.loops, part.picked_by)
        for part in stage.shared_ops
        for i, count in enumerate(part.ops)
        if count and names[i] in ("MulInt", "AddInt", "SelectInt", "CompareInt")
    }
    assert found == {"MulInt": (3, 0), "AddInt": (7, 0), "CompareInt": (4, 4), "SelectInt": (7, 4)}
