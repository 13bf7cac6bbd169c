"""Windows that slide over one loop: none is filled by reading an input before what is needed of it."""

from collections.abc import Callable, Iterator

import halide as hl
import pytest
from slow_cases import slow_but
from small_pipelines import (
    X,
    Y,
    boundary,
    chain,
    finish,
    func_named,
    half_boundary,
    image,
    make_gate,
    make_space,
    schedule_of,
)

from metol import _core
from metol.pipeline import extract

ROLLOUTS = 300
# Of one pipeline, lowered by Halide.
MOST_LOWERED = 10
# Enough for windows that slide within a task over tiles of several rows.
WIDE, HIGH = 320, 200


def forked(*, is_clamped: bool) -> hl.Pipeline:
    """Two windows of the same rows, both read by the output."""
    source: hl.Func | hl.ImageParam = image(WIDE, HIGH + 2)
    if is_clamped:
        source = hl.BoundaryConditions.repeat_edge(source)
    one, other, output = hl.Func("one"), hl.Func("other"), hl.Func("output")
    one[X, Y] = 3 * source[X, Y] + Y
    other[X, Y] = 5 * source[X, Y] - X
    output[X, Y] = one[X, Y] + one[X, Y + 2] - other[X, Y] * other[X, Y + 2]
    return finish(output, sizes=(WIDE, HIGH))


def open_fork() -> hl.Pipeline:
    return forked(is_clamped=False)


def clamped_fork() -> hl.Pipeline:
    return forked(is_clamped=True)


def sliding_leaves(space: _core.Space) -> Iterator[tuple[int, _core.States]]:
    """Loop nests with windows, and how many they have."""
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for i in range(len(leaves)):
        leaf = leaves.take([i])
        windows = sum(schedule.slide_dim >= 0 for schedule in leaf.describe())
        if windows:
            yield windows, leaf


@pytest.mark.parametrize(
    "build", slow_but([open_fork], [chain, boundary, half_boundary, open_fork, clamped_fork], further=[chain, boundary])
)
def test_halide_reads_no_input_too_early(build: Callable[[], hl.Pipeline]) -> None:
    dag = extract(build())
    gate = make_gate(build)
    leaves = [leaf for windows, leaf in sliding_leaves(make_space(dag)) if windows > 1]
    assert leaves
    for leaf in leaves[:MOST_LOWERED]:
        assert "needs -" not in gate.refusal(schedule_of(build, dag, leaf))


@pytest.mark.parametrize(("build", "is_pruned"), [(chain, False), (open_fork, True), (clamped_fork, False)])
def test_windows_that_halide_does_not_guard_are_pruned_over_an_input_that_ends(
    build: Callable[[], hl.Pipeline], is_pruned: bool
) -> None:
    space = make_space(extract(build()))
    assert any(windows > 1 for windows, _ in sliding_leaves(space))
    assert (space.pruned_counts()["warms_up_outside"] > 0) == is_pruned


def read_by_window_and_output() -> hl.Pipeline:
    """What the rows of a window are made of, the output reads, too."""
    source, grey, rows, output = image(WIDE, HIGH + 2), hl.Func("grey"), hl.Func("rows"), hl.Func("output")
    grey[X, Y] = source[X, Y] * 2 + X
    rows[X, Y] = grey[X, Y] * grey[X, Y] + 1
    output[X, Y] = rows[X, Y] + rows[X, Y + 2] * grey[X, Y + 1]
    return finish(output, sizes=(WIDE, HIGH))


def test_what_is_made_along_with_one_window_is_not_made_too_early() -> None:
    dag = extract(read_by_window_and_output())
    gate = make_gate(read_by_window_and_output)
    space = make_space(dag)
    grey, rows = (func_named(dag, name) for name in ("grey", "rows"))
    leaves = space.rollout(space.root(), range(4 * ROLLOUTS))
    together = 0
    for i in range(len(leaves)):
        nest = leaves.take([i]).describe()
        sites = [(nest[func].compute.stage, nest[func].compute.level) for func in (grey, rows)]
        is_at = nest[grey].placement == _core.Placement.AT and sites[0] == sites[1]
        if is_at and nest[rows].slide_dim >= 0 and nest[grey].slide_dim < 0 and together < MOST_LOWERED:
            together += 1
            assert "needs -" not in gate.refusal(schedule_of(read_by_window_and_output, dag, leaves.take([i])))
    assert space.pruned_counts()["warms_up_outside"] > 0


def window_with_an_end_that_stays() -> hl.Pipeline:
    """Each turn of the reduction reads a row further on, and all of them the first."""
    source, values, sums, output = image(WIDE, HIGH + 8), hl.Func("values"), hl.Func("sums"), hl.Func("output")
    values[X, Y] = source[X, Y] * 3
    r = hl.RDom([(0, 7)])
    sums[X, Y] = 0
    sums[X, Y] += values[X, Y + r] * values[X, Y]
    output[X, Y] = sums[X, Y] - 1
    return finish(output, sizes=(WIDE, HIGH))


def skewed_window_with_an_end_that_stays() -> hl.Pipeline:
    """The same over a loop of the output."""
    source, values, output = image(WIDE + HIGH, 8), hl.Func("values"), hl.Func("output")
    values[X, Y] = source[X, Y] * 3
    output[X, Y] = values[X + Y, 3] + values[X, 3]
    return finish(output, sizes=(WIDE, HIGH))


def window_in_steps() -> hl.Pipeline:
    """Both ends move, at the same pace, through a Func that is computed in each turn or inlined."""
    source, values, pairs, output = image(WIDE, HIGH + 8), hl.Func("values"), hl.Func("pairs"), hl.Func("output")
    values[X, Y] = source[X, Y] * 3
    pairs[X, Y] = values[X, Y] + values[X, Y + 2]
    output[X, Y] = pairs[X, Y] - pairs[X, Y + 1]
    return finish(output, sizes=(WIDE, HIGH))


def window_in_turns_of_which_some_are_left_out() -> hl.Pipeline:
    """Of the turns of the reduction, a third."""
    source, values, sums, output = image(WIDE, HIGH + 16), hl.Func("values"), hl.Func("sums"), hl.Func("output")
    values[X, Y] = source[X, Y] * 3
    r = hl.RDom([(0, 12)])
    r.where(r.x % 3 == 1)
    sums[X] = 0
    sums[X] += values[X, r] - values[X, r + 3]
    output[X, Y] = sums[X] - Y
    return finish(output, sizes=(WIDE, HIGH))


def window_over_a_reduction() -> hl.Pipeline:
    """The same without a condition, and both ends move."""
    source, values, sums, output = image(WIDE, HIGH + 16), hl.Func("values"), hl.Func("sums"), hl.Func("output")
    values[X, Y] = source[X, Y] * 3
    r = hl.RDom([(0, 12)])
    sums[X] = 0
    sums[X] += values[X, r] - values[X, r + 3]
    output[X, Y] = sums[X] - Y
    return finish(output, sizes=(WIDE, HIGH))


def loops_of_slides(build: Callable[[], hl.Pipeline]) -> set[str]:
    """Names of the loops over which the values may slide; "reduction" for those of a reduction."""
    dag = extract(build())
    space = make_space(dag)
    leaves = space.rollout(space.root(), range(2 * ROLLOUTS))
    values, found = func_named(dag, "values"), set()
    for place in range(len(leaves)):
        nest = leaves.take([place]).describe()
        (one,) = (schedule for schedule in nest if schedule.func == values)
        if one.slide_dim < 0:
            continue
        stage = dag.stages[one.compute.stage]
        host = next(schedule for schedule in nest if schedule.func == stage.func)
        (turning,) = (i for i, count in enumerate(host.stages[stage.index].levels[one.compute.level]) if count > 1)
        loop = stage.loops[turning]
        found.add("reduction" if loop.is_reduction else loop.name)
    return found


def test_windows_of_which_one_end_stays_do_not_slide() -> None:
    assert "reduction" not in loops_of_slides(window_with_an_end_that_stays)
    assert "y" not in loops_of_slides(skewed_window_with_an_end_that_stays)


def test_windows_do_not_slide_over_turns_of_which_some_are_left_out() -> None:
    assert "reduction" not in loops_of_slides(window_in_turns_of_which_some_are_left_out)


def test_windows_that_move_as_a_whole_slide() -> None:
    assert {"y"} <= loops_of_slides(window_in_steps)
    assert {"x"} <= loops_of_slides(skewed_window_with_an_end_that_stays)
    assert {"reduction"} <= loops_of_slides(window_over_a_reduction)
