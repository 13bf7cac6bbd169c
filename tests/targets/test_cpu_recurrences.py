"""Recurrences: a step takes at least what the operations take from what it loads of itself to what it stores."""

import math
from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import X, Y, finish, image, make_space

from metol.pipeline import PipelineDag, extract
from metol.targets.cpu import CpuMachine, cpu_parameters

SIDE, STEPS = 256, 64
ROLLOUTS = 400
# Of the look-ahead of 256 instructions, and two instructions an operation.
LOOK_AHEAD = 128


def escapes() -> PipelineDag:
    """z = z * z + c * step until it is far away."""
    z, output = hl.Func("z"), hl.Func("output")
    steps = hl.RDom([(0, STEPS)], "steps")
    c = hl.f32(X) * hl.f32(0.01) - hl.f32(2)
    z[X, Y] = hl.f32(0)
    z[X, Y] = hl.select(z[X, Y] * z[X, Y] > hl.f32(4), z[X, Y], z[X, Y] * z[X, Y] + c * hl.f32(steps))
    output[X, Y] = z[X, Y] * 2
    return extract(finish(output, sizes=(SIDE, SIDE)))


def sums() -> PipelineDag:
    total, output, source = hl.Func("total"), hl.Func("output"), image(SIDE, STEPS, pixel=hl.Float(32))
    steps = hl.RDom([(0, STEPS)], "steps")
    total[X, Y] = hl.f32(0)
    total[X, Y] += source[X, steps] * hl.f32(Y)
    output[X, Y] = total[X, Y] * 2
    return extract(finish(output, sizes=(SIDE, SIDE)))


def test_a_step_of_a_recurrence_takes_all_of_its_chain() -> None:
    machine = CpuMachine.default(threads=2)
    cycle = 2 * machine.operations.f32_fma_seconds
    for dag, cycles in ((sums(), 4), (escapes(), 11)):
        (update,) = (number for number, stage in enumerate(dag.stages) if stage.index == 1)
        assert cpu_parameters(machine, dag).chained_step_seconds[update] == pytest.approx(cycles * cycle)


def test_what_all_steps_have_in_common_is_computed_once() -> None:
    dag = escapes()
    (update,) = (number for number, stage in enumerate(dag.stages) if stage.index == 1)
    machine = CpuMachine.default(threads=2)
    rates = machine.operations
    # The square, the number of the step, what they make together, and which of them it is; not what c is made of.
    each_step = rates.f32_mul_seconds + rates.convert_i32_f32_seconds + rates.f32_fma_seconds
    assert cpu_parameters(machine, dag).register_seconds[update] == pytest.approx(
        each_step + rates.f32_compare_select_seconds
    )


@pytest.mark.parametrize(("build", "operations"), [(sums, 1), (escapes, 4)])
def test_a_core_looks_ahead_over_all_that_a_step_computes(build: Callable[[], PipelineDag], operations: int) -> None:
    dag = build()
    space = make_space(dag)
    (update,) = (number for number, stage in enumerate(dag.stages) if stage.index == 1)
    reduction = next(i for i, loop in enumerate(dag.stages[update].loops) if loop.is_reduction)
    names = list(space.feature_table())
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    seen = 0
    for leaf in (leaves.take([i]) for i in range(ROLLOUTS)):
        (rows,) = space.featurize(leaf)
        row = dict(zip(names, map(float, rows[update]), strict=True))
        if row["chained_steps"] == 0 or row["vector_size"] == 1:
            continue
        nest = leaf.describe()[dag.stages[update].func].stages[1]
        tile, around = nest.levels[-1], nest.levels[-2]
        vectors = math.prod(tile) / tile[reduction] / nest.vector_width * row["registers_per_vector"]
        waiting = 1 - LOOK_AHEAD / (operations * vectors * tile[reduction] * around[reduction])
        assert row["chained_steps"] == pytest.approx(waiting * row["loop_iterations"] * tile[reduction], rel=1e-4)
        seen += 1
    assert seen > 5
