"""What is computed in the blocks of kernels: as much as any block may hold, of outputs of any size."""

from itertools import pairwise

import halide as hl
import pytest
from gpu_by_hand import Build
from small_pipelines import (
    HEIGHT,
    WIDTH,
    C,
    X,
    Y,
    counted,
    finish,
    func_named,
    image,
    make_gate,
    make_gpu_space,
    schedule_with,
)

from metol import _core
from metol.lower import Call, Directive, RVar, gpu_directives
from metol.measure import BlockLimits
from metol.pipeline import PipelineDag, extract

USUAL_BLOCK = BlockLimits(threads=1024, shared_bytes=48 << 10)
AT = _core.Placement.AT


def short_sides() -> hl.Pipeline:
    """Shorter than any block, along all dimensions."""
    source = image(9, 10, 9)
    values, sums, output = hl.Func("values"), hl.Func("sums"), hl.Func("output")
    values[X, Y, C] = source[X, Y, C] + source[X + 1, Y + 1, C + 1]
    sums[X, Y, C] = values[X, Y, C] * values[X + 2, Y + 2, C]
    output[X, Y, C] = sums[X, Y, C] + sums[X + 1, Y, C + 1]
    return finish(output, sizes=(5, 6, 7))


def steps_in_turn() -> hl.Pipeline:
    """Down and up again, with what lies between added: no block knows where the others' parts of it begin."""
    source = image(2 * WIDTH + 16, HEIGHT)
    levels = [hl.Func(f"level_{number}") for number in range(3)]
    levels[0][X, Y] = source[X, Y] * 3
    for finer, coarser in pairwise(levels):
        coarser[X, Y] = finer[2 * X, Y] + finer[2 * X + 1, Y]
    up = levels[2]
    for number in (1, 0):
        finer = hl.Func(f"up_{number}")
        finer[X, Y] = up[X // 2, Y] + up[X // 2 + 1, Y] + levels[number][X, Y]
        up = finer
    output = hl.Func("output")
    output[X, Y] = up[X, Y] + up[X + 1, Y]
    return finish(output, sizes=(2 * WIDTH - 10, HEIGHT))


def leaves_of(dag: PipelineDag, count: int) -> list[list[_core.FuncSchedule]]:
    space = make_gpu_space(dag)
    leaves = space.rollout(space.root(), range(count))
    return [leaves.take([place]).describe() for place in range(len(leaves))]


@pytest.mark.slow
@pytest.mark.parametrize("places", [slice(6), pytest.param(slice(6, 15), marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("build", [short_sides, steps_in_turn])
def test_blocks_can_be_launched_for_larger_outputs(build: Build, places: slice) -> None:
    dag = extract(build())
    gate = make_gate(build, "host-cuda", USUAL_BLOCK)
    are_inside = 0
    for nest in leaves_of(dag, 15)[places]:
        refusal = gate.refusal(schedule_with(build, gpu_directives(dag, nest)))
        assert "a block has" not in refusal
        are_inside += any(one.placement == AT for one in nest)
    assert are_inside > 1


def test_what_is_read_along_and_across_is_not_computed_in_blocks() -> None:
    """The further a block is from the diagonal, the further apart are the two parts of what it needs."""
    values, along, output = hl.Func("values"), hl.Func("along"), hl.Func("output")
    values[X, Y] = image(200, 200)[X, Y] * 2
    values[X, Y] += 1  # not inlined
    along[X, Y] = values[X, Y] + values[X + 1, Y]
    along[X, Y] += 1
    output[X, Y] = along[X, Y] + values[Y, X]
    dag = extract(finish(output, sizes=(100, 100)))
    placements = {
        one.placement for nest in leaves_of(dag, 100) for one in nest if one.func == func_named(dag, "values")
    }
    assert placements == {_core.Placement.ROOT}
    inside = {one.placement for nest in leaves_of(dag, 100) for one in nest if one.func == func_named(dag, "along")}
    assert AT in inside


@pytest.mark.slow
def test_no_condition_is_read_beyond_what_guards_the_threads() -> None:
    """Unrolled, a reduction that ends where an input says reads that beside the guards, and beyond them."""
    dag = extract(counted())
    assert [stage.has_loading_condition for stage in dag.stages] == [False, True, False]
    gate = make_gate(counted, "host-cuda", USUAL_BLOCK)
    (name,) = (loop.name for loop in dag.stages[1].loops if loop.is_reduction)
    refusals, unrolled_refusals = [], []
    for nest in leaves_of(dag, 10):
        directives = gpu_directives(dag, nest)
        of_sums = [place for place, one in enumerate(directives) if (one.func, one.stage) == (dag.stages[1].func, 1)]
        assert not any(directives[place] == unrolled(dag, name) for place in of_sums)
        refusals.append(gate.refusal(schedule_with(counted, directives)))
        if of_sums:
            last = of_sums[-1] + 1
            changed = (*directives[:last], unrolled(dag, name), *directives[last:])
            unrolled_refusals.append(gate.refusal(schedule_with(counted, changed)))
    assert sum(not refusal for refusal in refusals) > 5
    assert any("of `counts`, which has " in refusal for refusal in unrolled_refusals)


def unrolled(dag: PipelineDag, loop: str) -> Directive:
    return Directive(dag.stages[1].func, 1, Call.UNROLL, (RVar(loop),))
