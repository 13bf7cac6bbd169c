"""What is computed two Funcs deep in tasks that were loops along several dimensions asks for no more than it needs."""

import halide as hl
from small_pipelines import ExactRuns, X, Y, cpu_space, finish, func_named, image, make_gate, schedule_of

from metol import _core
from metol.lower import Call
from metol.pipeline import PipelineDag

SIZES = (80, 60)
ROLLOUTS = 900
RUN = 4


def levels() -> hl.Pipeline:
    """Two Funcs that the output reads through each other, of which the one in the middle has an update."""
    source = image(SIZES[0] + 1, SIZES[1], name="source")
    inner, middle, output = hl.Func("inner"), hl.Func("middle"), hl.Func("output")
    k = hl.RDom([(0, 8)], "k")
    inner[X, Y] = source[X, Y] * 3
    middle[X, Y] = 0
    middle[X, Y] += inner[X, Y] * k.x
    output[X, Y] = middle[X, Y] + middle[X + 1, Y]
    return finish(output, sizes=SIZES)


def has_whole_loop_inside(dag: PipelineDag, leaf: _core.States) -> bool:
    """Is `inner` computed in the loops of `middle`, with one that is not split further in, and no window kept?"""
    schedules = leaf.describe()
    inner, middle = (schedules[func_named(dag, name)] for name in ("inner", "middle"))
    is_deep = inner.placement == middle.placement == _core.Placement.AT
    if (
        not is_deep
        or dag.stages[inner.compute.stage].func != middle.func
        or {inner.slide_dim, middle.slide_dim} != {-1}
    ):
        return False
    stage = dag.stages[inner.compute.stage]
    *levels, tile = middle.stages[stage.index].levels
    return any(
        [level for level, trips in enumerate(levels) if trips[loop] > 1][:1] > [inner.compute.level] and tile[loop] == 1
        for loop, dim in enumerate(stage.loops)
        if not dim.is_rvar
    )


def test_no_more_of_an_input_is_asked_for() -> None:
    dag, space = cpu_space(levels)
    gate, runs, tried = make_gate(levels), ExactRuns("levels", levels), 0
    for seed in range(ROLLOUTS):
        leaf = space.rollout(space.root(), [seed])
        if has_whole_loop_inside(dag, leaf):
            schedule = schedule_of(levels, dag, leaf)
            if any(d.call is Call.FUSE for d in schedule.directives):
                assert gate.refusal(schedule) == ""
                if tried < RUN:
                    runs.check(schedule)
                tried += 1
    assert tried > RUN
