"""Sums of few steps: a tile that is all of a Stage has all of them, and what they compute is as wide as it is."""

from math import prod

import halide as hl
import pytest
from small_pipelines import WIDE_TARGET, C, X, Y, finish, func_named, image, is_one_tile, make_space

from metol import _core
from metol.lower import Call, cpu_directives
from metol.pipeline import PipelineDag, extract

ROLLOUTS = 2000
AT, REDUCTION = 3, 6  # kinds of decisions


def products(side: int = 4) -> hl.Pipeline:
    """Products of small matrices, copied to an output."""
    left, right = image(side, side, 1000, pixel=hl.Float(32)), image(side, side, 1000, pixel=hl.Float(32))
    product, output = hl.Func("product"), hl.Func("output")
    k = hl.RDom([(0, side)], "k")
    product[X, Y, C] = hl.f32(0)
    product[X, Y, C] += left[k.x, Y, C] * right[X, k.x, C]
    output[X, Y, C] = product[X, Y, C]
    return finish(output, sizes=(side, side, 1000))


def window(side: int = 5) -> hl.Pipeline:
    """The greatest byte of those in a window whose places fulfil a condition, of two products of integers."""
    source = image(260, 260, pixel=hl.UInt(8))
    greatest, output = hl.Func("greatest"), hl.Func("output")
    r = hl.RDom([(0, side), (0, side)], "r")
    r.where((r.x - 2) * (r.x - 2) + (r.y - 2) * (r.y - 2) <= 5)
    greatest[X, Y] = hl.u8(0)
    greatest[X, Y] = hl.max(greatest[X, Y], source[X + r.x, Y + r.y])
    output[X, Y] = greatest[X, Y] / 2
    return finish(output, sizes=(250, 250))


def pooled() -> hl.Pipeline:
    """The greatest of two by two bytes: lanes that lie two apart."""
    source = image(512, 512, pixel=hl.UInt(8))
    greatest, output = hl.Func("greatest"), hl.Func("output")
    r = hl.RDom([(0, 2), (0, 2)], "r")
    greatest[X, Y] = hl.u8(0)
    greatest[X, Y] = hl.max(greatest[X, Y], source[2 * X + r.x, 2 * Y + r.y])
    output[X, Y] = greatest[X, Y]
    return finish(output, sizes=(250, 250))


def update_of(dag: PipelineDag, name: str) -> tuple[int, int]:
    """Return a Func of an update, and the Stage that this is."""
    func = func_named(dag, name)
    return func, dag.funcs[func].stages[1]


def vectors_of(nest: _core.StageNest) -> float:
    return prod(nest.levels[-1]) / nest.vector_width


def test_a_sum_that_is_computed_in_a_tile_has_all_of_its_steps_there_before_anything_is_decided_about_it() -> None:
    dag = extract(products(), target=WIDE_TARGET)
    space = make_space(dag, target=WIDE_TARGET)
    func, stage = update_of(dag, "product")
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    seen = 0
    for leaf in range(ROLLOUTS):
        path = space.path(leaves.take([leaf]))
        place = next((i for i, decision in enumerate(path) if decision[0] == AT and decision[1] == func), None)
        if place is None:
            continue
        schedule = space.replay(path[: place + 1]).describe()[func]
        host = dag.stages[schedule.compute.stage]
        reader = space.replay(path[: place + 1]).describe()[host.func].stages[host.index]
        is_in_tile = schedule.compute.level == len(reader.levels) - 2
        if is_in_tile and schedule.slide_dim < 0 and vectors_of(reader) <= 8:
            seen += 1
            assert is_one_tile(schedule.stages[1]), dag.stages[stage].loops
            assert vectors_of(schedule.stages[1]) == 4 * vectors_of(schedule.stages[0])
    assert seen > 5


@pytest.mark.parametrize(("side", "is_offered"), [(5, True), (6, False)])
def test_all_steps_of_a_window_of_five_by_five_can_be_unrolled(side: int, is_offered: bool) -> None:
    dag = extract(window(side), target=WIDE_TARGET)
    space = make_space(dag, target=WIDE_TARGET)
    _, stage = update_of(dag, "greatest")
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    unrolled = set()
    for leaf in range(ROLLOUTS):
        for decision in space.path(leaves.take([leaf])):
            if decision[0] == REDUCTION and decision[2] == stage:
                unrolled.add(decision[10:12])
    assert ((side, side) in unrolled) == is_offered


def test_what_differs_from_step_to_step_alone_makes_no_vectors_wider() -> None:
    dag = extract(window(), target=WIDE_TARGET)
    _, stage = update_of(dag, "greatest")
    assert (dag.stages[stage].narrowest_bytes, dag.stages[stage].widest_bytes) == (1, 1)


def test_a_tile_that_lowering_does_not_unroll_goes_through_memory() -> None:
    dag = extract(pooled(), target=WIDE_TARGET)
    space = make_space(dag, target=WIDE_TARGET)
    func, stage = update_of(dag, "greatest")
    column = list(space.feature_table()).index("in_registers")
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    seen: set[bool] = set()
    for leaf in (leaves.take([i]) for i in range(ROLLOUTS)):
        schedules = leaf.describe()
        if schedules[func].placement != _core.Placement.AT or vectors_of(schedules[func].stages[1]) == 1:
            continue
        own = [d for d in cpu_directives(dag, schedules) if (d.func, d.stage) == (func, 1)]
        is_unrolled = any(d.call is Call.UNROLL for d in own)
        seen.add(is_unrolled)
        (rows,) = space.featurize(leaf)
        assert is_unrolled or rows[stage][column] == 0
    assert False in seen
