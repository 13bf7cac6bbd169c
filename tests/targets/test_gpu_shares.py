"""What is computed in threads: only where all need the same number of points, which lowering tells Halide."""

from math import prod

import halide as hl
import pytest
from small_pipelines import X, Y, finish, func_named, image, make_gpu_space

from metol import _core
from metol.pipeline import extract

BLOCKS, THREADS, POINTS = range(3)  # levels of a loop nest
AT = _core.Placement.AT


def pairs(*, are_halved: bool) -> hl.Pipeline:
    """Sums of pairs, read by every thread or by every other one."""
    values, sums, output = hl.Func("values"), hl.Func("sums"), hl.Func("output")
    values[X] = image(4100)[X] * 2
    sums[X] = values[2 * X + 1] + values[2 * X + 2]
    output[X] = sums[X // 2] + sums[(X + 1) // 2] if are_halved else sums[X] + sums[X + 1]
    return finish(output, sizes=(2000,))


def levels_of_values(*, are_halved: bool) -> set[int]:
    """Levels of the output's loops in which the values are computed, where their sums are inlined."""
    dag = extract(pairs(are_halved=are_halved))
    values_id, sums_id = (func_named(dag, name) for name in ("values", "sums"))
    space = make_gpu_space(dag)
    leaves = space.rollout(space.root(), range(300))
    levels = set()
    for place in range(len(leaves)):
        described = {one.func: one for one in leaves.take([place]).describe()}
        one = described[values_id]
        if described[sums_id].placement == _core.Placement.INLINE and one.placement == AT:
            levels.add(one.compute.level)
    return levels


@pytest.mark.parametrize("are_halved", [False, True])
def test_threads_hold_what_all_need_alike(are_halved: bool) -> None:
    # Of 2 * (x // 2) + 1 to 2 * ((x + 1) // 2) + 2, every other thread needs two points, and the others four.
    levels = levels_of_values(are_halved=are_halved)
    assert levels
    assert (THREADS in levels) == (not are_halved)


def levels_of(output: hl.Func, name: str = "values") -> set[int]:
    """Levels of the loops of an output of 4000 points in which a Func is computed, whatever else is decided."""
    dag = extract(finish(output, sizes=(4000,)))
    space = make_gpu_space(dag)
    leaves = space.rollout(space.root(), range(200))
    nests = (leaves.take([place]).describe() for place in range(len(leaves)))
    func = func_named(dag, name)
    return {one.compute.level for nest in nests for one in nest if one.func == func and one.placement == AT}


def values_of() -> hl.Func:
    values = hl.Func("values")
    values[X] = image(9000)[X] * 2
    values[X] += 1  # not inlined
    return values


def test_steps_within_one_expression_count() -> None:
    values, output = values_of(), hl.Func("output")
    output[X] = values[X // 4 * 4] * 7 + values[X // 4 * 4 + 1]
    assert levels_of(output) == {BLOCKS}
    values, output = values_of(), hl.Func("output")
    output[X] = values[2 * X] * 7 + values[2 * X + 1]
    assert levels_of(output) == {BLOCKS, THREADS}


def test_what_is_read_at_floats_is_in_no_block() -> None:
    values, output = values_of(), hl.Func("output")
    place = hl.i32(hl.floor((hl.f32(X) + 0.5) * 1.5))
    output[X] = values[place] + values[place + 1]
    assert levels_of(output) == set()


def test_what_is_read_in_steps_and_in_another_way_is_in_no_block() -> None:
    values, output = values_of(), hl.Func("output")
    output[X] = values[X // 2] + values[X // 2 + 1]
    assert levels_of(output) == {BLOCKS}
    values, output = values_of(), hl.Func("output")
    output[X] = values[X // 2] + values[X // 4 * 2]
    assert levels_of(output) == set()


def shorter_than_a_block() -> hl.Pipeline:
    """Fewer rows are estimated than a block may have: of a larger output, a block needs more of the values."""
    values, output = hl.Func("values"), hl.Func("output")
    values[X, Y] = image(200, 60)[X, Y] * 3
    values[X, Y] += 1
    output[X, Y] = values[X, Y] + values[X + 2, Y + 2]
    return finish(output, sizes=(150, 20))


@pytest.mark.slow
def test_no_kernel_is_too_large_where_the_output_fills_a_block() -> None:
    dag = extract(shorter_than_a_block())
    space = make_gpu_space(dag)
    leaves = space.rollout(space.root(), range(3000))
    values, output = func_named(dag, "values"), func_named(dag, "output")
    threads = []
    for place in range(len(leaves)):
        described = {one.func: one for one in leaves.take([place]).describe()}
        one = described[values]
        if one.placement == AT and one.compute.level == BLOCKS:
            _, counts, points = described[output].stages[0].levels
            sides = [counts[d] * points[d] + 2 for d in range(2)]
            own = one.stages[0].levels[POINTS]
            threads.append(prod(-(-side // own[d]) for d, side in enumerate(sides)))
    assert max(threads) <= 1024
    assert len(threads) > 100


@pytest.mark.parametrize("is_ended", [False, True])
def test_threads_hold_no_part_of_a_reduction_that_ends_by_their_point(*, is_ended: bool) -> None:
    """Threads further on need more: lowering would bound the storage of all by what those in the middle need."""
    values, sums, k = hl.Func("values"), hl.Func("sums"), hl.RDom([(0, 8)], "k")
    if is_ended:
        k.where(k.x <= Y)
    values[X, Y] = image(512, 8)[X, Y] * 2
    values[X, Y] += 1  # not inlined
    sums[X, Y] = 0
    sums[X, Y] += values[X, k.x]
    dag = extract(finish(sums, sizes=(512, 5)))
    space = make_gpu_space(dag)
    leaves = space.rollout(space.root(), range(300))
    func = func_named(dag, "values")
    found = [leaves.take([place]).describe()[func] for place in range(len(leaves))]
    assert any(one.placement == AT for one in found)
    in_threads = [one for one in found if one.placement == AT and one.compute.level == THREADS]
    assert bool(in_threads) == (not is_ended)
