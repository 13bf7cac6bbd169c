"""Updates whose reduction loops are spread over threads: their turns do not meet, or update atomically."""

from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import EMULATED_TARGET, ExactRuns, X, Y, finish, gpu_space, image, schedule_with

from metol import _core
from metol.lower import Call, Directive, gpu_directives
from metol.pipeline import PipelineDag

COLUMNS, ROWS, CHANNELS, PLACES = 40, 24, 3, 16
Build = Callable[[], hl.Pipeline]


def interior() -> hl.Pipeline:
    """All but the border is computed by an update, as of what has other rules there."""
    source, inner, output = image(COLUMNS, ROWS), hl.Func("inner"), hl.Func("output")
    r = hl.RDom([(1, COLUMNS - 2), (1, ROWS - 2)], "r")
    inner[X, Y] = hl.i32(source[X, Y])
    inner[r.x, r.y] = hl.i32(source[r.x - 1, r.y]) + source[r.x + 1, r.y] * 3 - source[r.x, r.y - 1]
    output[X, Y] = inner[X, Y] + inner[Y, X]
    return finish(output, sizes=(ROWS, ROWS))


def products() -> hl.Pipeline:
    """A sum of products for each place, of which the update is told by reduction loops alone."""
    source, sums, output = image(ROWS, ROWS), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, ROWS), (0, ROWS), (0, ROWS)], "r")
    sums[X, Y] = 0
    sums[r.x, r.y] += hl.i32(source[r.z, r.y]) * source[r.x, r.z]
    output[X, Y] = sums[X, Y] * 2
    return finish(output, sizes=(ROWS, ROWS))


def splat() -> hl.Pipeline:
    """Values tell where all channels of a point are added."""
    source, sums, output = image(COLUMNS, ROWS), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, COLUMNS), (0, ROWS)], "r")
    sums[X, Y] = 0
    sums[X, hl.i32(source[r.x, r.y]) % PLACES] += hl.i32(source[r.x, r.y]) + X
    output[X, Y] = sums[X, Y] * 2
    return finish(output, sizes=(CHANNELS, PLACES))


def leaves_of(build: Build, count: int) -> tuple[PipelineDag, list[tuple[_core.StageNest, list[Directive]]]]:
    """Return, of loop nests at random, the loops of the only update and all directives."""
    dag, space = gpu_space(build)
    leaves = space.rollout(space.root(), range(count))
    described = [leaves.take([i]).describe() for i in range(count)]
    updates = [next(one.stages[1] for one in nest if len(one.stages) == 2) for nest in described]
    return dag, list(zip(updates, (gpu_directives(dag, nest) for nest in described), strict=True))


def update_of(dag: PipelineDag) -> _core.Stage:
    return next(stage for stage in dag.stages if stage.index == 1)


@pytest.mark.parametrize(("build", "free"), [(interior, [True, True]), (products, [True, True, False])])
def test_turns_that_do_not_meet_are_spread_over_threads(build: Build, free: list[bool]) -> None:
    dag, leaves = leaves_of(build, 20)
    loops = update_of(dag).loops
    assert [loop.is_parallelizable for loop in loops] == free
    for nest, directives in leaves:
        assert nest.is_parallel
        assert not nest.is_atomic
        assert loops[nest.vector_loop].is_parallelizable
        spread = [levels[0] * levels[1] for levels in zip(*nest.levels, strict=True)]
        assert max(spread[: len(free)]) > 1
        assert all(count == 1 for count, is_free in zip(spread, free, strict=False) if not is_free)
        calls = [one.call for one in directives if one.stage == 1]
        assert Call.GPU_THREADS in calls
        assert Call.ATOMIC not in calls


def test_a_scatter_with_channels_is_atomic_or_has_a_thread_a_channel() -> None:
    dag, leaves = leaves_of(splat, 60)
    loops = update_of(dag).loops
    assert {nest.is_atomic for nest, _ in leaves} == {False, True}
    assert {loops[nest.vector_loop].is_reduction for nest, _ in leaves if nest.is_atomic} == {False, True}
    for nest, directives in leaves:
        assert nest.is_atomic or not loops[nest.vector_loop].is_reduction
        assert nest.is_atomic == (Call.ATOMIC in [one.call for one in directives if one.stage == 1])


def test_atomic_updates_wait_for_the_second_cache() -> None:
    dag, space = gpu_space(splat)
    names = list(space.feature_table())
    number = next(i for i, stage in enumerate(dag.stages) if stage.index == 1)
    leaves = space.rollout(space.root(), range(60))
    for i in range(60):
        leaf = leaves.take([i])
        turns = dict(zip(names, map(float, space.featurize(leaf)[0, number]), strict=True))["atomic_turns"]
        is_atomic = any(stage.is_atomic for one in leaf.describe() for stage in one.stages)
        assert (turns > 0) == is_atomic


@pytest.mark.opencl
@pytest.mark.usefixtures("opencl_device")
@pytest.mark.parametrize("build", [interior, products, splat])
def test_results_are_right_with_opencl(build: Build) -> None:
    check(build, "host-opencl")


@pytest.mark.usefixtures("emulated_gpu")
@pytest.mark.parametrize("build", [interior, products, splat])
def test_results_are_right_with_cuda(build: Build) -> None:
    check(build, EMULATED_TARGET)


def check(build: Build, target: str) -> None:
    _, leaves = leaves_of(build, 20)
    kinds = {(nest.is_atomic, nest.is_parallel): directives for nest, directives in leaves}
    runs = ExactRuns(build.__name__, build, target)
    for directives in kinds.values():
        runs.check(schedule_with(build, directives))


def test_paths_of_before_still_lead_to_atomic_updates() -> None:
    # Then nothing but the loop along which the lanes lie told so.
    dag, space = gpu_space(splat)
    leaves = space.rollout(space.root(), range(60))
    replayed = 0
    for leaf in (leaves.take([i]) for i in range(60)):
        (nest,) = (one.stages[1] for one in leaf.describe() if len(one.stages) == 2)
        if nest.is_atomic and nest.vector_loop < 2:  # a reduction loop
            path = [(*decision[:8], 0, *decision[9:]) for decision in space.path(leaf)]
            assert gpu_directives(dag, space.replay(path).describe()) == gpu_directives(dag, leaf.describe())
            replayed += 1
    assert replayed > 0
