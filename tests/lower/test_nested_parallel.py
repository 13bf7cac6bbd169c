"""Funcs that are parallel in a serial loop of another: offered where nothing around them is, right at every size."""

import halide as hl
import numpy as np
import pytest
from slow_cases import slow_but
from small_pipelines import ExactRuns, X, Y, convolution, cpu_space, finish, image, make_space, schedule_of

from metol import _core
from metol.lower import Call
from metol.pipeline import extract


def recurrence() -> hl.Pipeline:
    """Down the rows one after the other, each from a stencil that is wide enough to share among cores."""
    source, once, down, output = image(42, 24), hl.Func("once"), hl.Func("down"), hl.Func("output")
    r = hl.RDom([(1, 23)], "r")
    once[X, Y] = source[X, Y] * 3 - source[X + 2, Y]
    down[X, Y] = once[X, 0]
    down[X, r.x] = down[X, r.x - 1] + once[X, r.x]
    output[X, Y] = down[X, hl.clamp(Y, 0, 23)]
    return finish(output)


def is_nested(schedule: _core.FuncSchedule) -> bool:
    return schedule.placement == _core.Placement.AT and any(nest.is_parallel for nest in schedule.stages)


def nested(space: _core.Space, wanted: int, tries: int = 600) -> list[_core.States]:
    leaves = space.rollout(space.root(), range(tries))
    singles = (leaves.take([i]) for i in range(tries))
    return [leaf for leaf in singles if any(map(is_nested, leaf.describe()))][:wanted]


@pytest.mark.parametrize("build", slow_but([recurrence], [recurrence, convolution]))
def test_nested_parallel_loops_keep_the_result(build) -> None:
    dag, space = cpu_space(build)
    runs = ExactRuns(build.__name__, build)
    leaves = nested(space, 2)
    assert leaves
    for leaf in leaves:
        schedule = schedule_of(build, dag, leaf)
        funcs = {s.func for s in leaf.describe() if is_nested(s)}
        assert {d.func for d in schedule.directives if d.call is Call.PARALLEL} >= funcs
        runs.check(schedule)


def test_one_loop_alone_is_parallel_below_root() -> None:
    _, space = cpu_space(recurrence)
    for leaf in nested(space, 100):
        for schedule in filter(is_nested, leaf.describe()):
            for nest in (nest for nest in schedule.stages if nest.is_parallel):
                assert sum(count > 1 for count in nest.levels[0]) == 1


def test_no_loop_is_parallel_inside_a_parallel_one() -> None:
    dag, space = cpu_space(recurrence)
    for leaf in nested(space, 100):
        schedules = leaf.describe()
        for schedule in filter(is_nested, schedules):
            host = schedules[dag.stages[schedule.compute.stage].func]
            position = list(dag.funcs[host.func].stages).index(schedule.compute.stage)
            assert not host.stages[position].is_parallel


def test_tasks_and_launches_are_counted() -> None:
    dag, space = cpu_space(recurrence)
    columns = list(space.feature_table())
    for leaf in nested(space, 10):
        rows = space.featurize(leaf)[0]
        for schedule in filter(is_nested, leaf.describe()):
            for stage, nest in zip(dag.funcs[schedule.func].stages, schedule.stages, strict=True):
                tasks = int(np.prod(nest.levels[0])) if nest.is_parallel else 1
                assert rows[stage, columns.index("inner_parallelism")] == tasks
                assert rows[stage, columns.index("outer_parallelism")] == 1


def test_only_stages_at_root_are_parallel_where_that_is_switched_off() -> None:
    options = _core.SpaceOptions()
    options.allow_nested_parallel = False
    assert not nested(make_space(extract(recurrence()), options=options), 1)
