"""What is computed in threads: only where all need the same number of points, which lowering tells Halide."""

import halide as hl
import pytest
from small_pipelines import X, finish, func_named, image, make_gpu_space

from metol import _core
from metol.pipeline import extract

THREADS = 1  # a level of a loop nest


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
        if described[sums_id].placement == _core.Placement.INLINE and one.placement == _core.Placement.AT:
            levels.add(one.compute.level)
    return levels


@pytest.mark.parametrize("are_halved", [False, True])
def test_threads_hold_what_all_need_alike(are_halved: bool) -> None:
    # Of 2 * (x // 2) + 1 to 2 * ((x + 1) // 2) + 2, every other thread needs two points, and the others four.
    levels = levels_of_values(are_halved=are_halved)
    assert levels
    assert (THREADS in levels) == (not are_halved)
