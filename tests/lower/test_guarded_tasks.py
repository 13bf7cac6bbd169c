"""Parallel loops whose tiles are guarded stay apart, so that Halide can split the guarded iterations off."""

from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import ExactRuns, X, Y, convolution, cpu_space, finish, image, matmul_output, schedule_of

from metol import _core
from metol.lower import Call, Directive, Schedule, cpu_directives
from metol.lower.lowering_options import LoweringOptions
from metol.pipeline import PipelineDag


def even() -> hl.Pipeline:
    """The product of two matrices, of sizes that powers of two divide."""
    a, b, product = image(16, 32, name="a"), image(64, 16, name="b"), hl.Func("product")
    k = hl.RDom([(0, 16)], "k")
    product[X, Y] = 0
    product[X, Y] += a[k.x, Y] * b[X, k.x]
    return finish(product, sizes=(64, 32))


def tasks_of(directives: tuple[Directive, ...], stage: _core.Stage) -> tuple[int, int]:
    """Parallel loops of a Stage, and fusions of several into one."""
    own = [d.call for d in directives if (d.func, d.stage) == (stage.func, stage.index)]
    return own.count(Call.PARALLEL), own.count(Call.FUSE)


def has_guarded_tiles(stage: _core.Stage, nest: _core.StageNest) -> bool:
    """Are there several parallel loops, and has one of them a tile, and nothing else, inside?"""
    *around, tile = nest.levels
    turning = [sum(count[i] > 1 for count in around) for i in range(len(stage.loops))]
    parallel = [i for i, count in enumerate(nest.levels[0]) if nest.is_parallel and count > 1]
    return len(parallel) > 1 and any(turning[i] == 1 and tile[i] > 1 for i in parallel)


def guarded(build: Callable[[], hl.Pipeline]) -> tuple[PipelineDag, list[tuple[_core.States, _core.Stage]]]:
    """Random loop nests with an update that has parallel loops of unrolled tiles."""
    dag, space = cpu_space(build, cores=16)
    leaves = space.rollout(space.root(), range(300))
    return dag, [
        (leaf, dag.stages[stage])
        for leaf in (leaves.take([i]) for i in range(300))
        for schedule in leaf.describe()
        for stage, nest in zip(dag.funcs[schedule.func].stages, schedule.stages, strict=False)
        if dag.stages[stage].index > 0 and has_guarded_tiles(dag.stages[stage], nest)
    ]


@pytest.mark.parametrize("build", [matmul_output, convolution])
def test_guarded_tasks_are_not_one_loop(build: Callable[[], hl.Pipeline]) -> None:
    dag, found = guarded(build)
    assert found
    for leaf, stage in found:
        parallel, fusions = tasks_of(cpu_directives(dag, leaf.describe()), stage)
        assert parallel > 1
        assert fusions == 0


def test_tasks_that_need_no_guard_are_one_loop() -> None:
    dag, found = guarded(even)
    fixed = LoweringOptions(fixed_sizes=True)
    assert (1, 1) in {tasks_of(cpu_directives(dag, leaf.describe(), fixed), stage) for leaf, stage in found}
    assert (1, 1) not in {tasks_of(cpu_directives(dag, leaf.describe()), stage) for leaf, stage in found}


@pytest.mark.slow
def test_guarded_tasks_keep_the_result() -> None:
    dag, found = guarded(matmul_output)
    runs = ExactRuns("matmul_output")
    schedules: list[Schedule] = [schedule_of(matmul_output, dag, leaf) for leaf, _ in found[:6]]
    for schedule in schedules:
        runs.check(schedule)
