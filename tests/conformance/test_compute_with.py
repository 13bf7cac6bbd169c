"""Stages that share the loops of others: offered where Halide can do it, right at every size."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import halide as hl
import pytest
from slow_cases import slow_but
from small_pipelines import (
    HEIGHT,
    SOME_TARGET,
    WIDTH,
    ExactRuns,
    X,
    Y,
    finish,
    image,
    make_gate,
    make_space,
    schedule_of,
    some_machine,
)
from verified_runs import compare

from metol import SearchOptions, _core
from metol.lower import Call
from metol.measure import PipelineSource
from metol.pipeline import PipelineDag, extract
from metol.planner import Planner

Build = Callable[[], hl.Pipeline]


def gradients() -> hl.Pipeline:
    """Outputs that read an input around different places."""
    source = image(WIDTH + 4, HEIGHT + 3)
    across, down, both = hl.Func("across"), hl.Func("down"), hl.Func("both")
    across[X, Y] = source[X + 4, Y + 1] - source[X, Y + 1]
    down[X, Y] = source[X + 1, Y + 3] - source[X + 1, Y]
    both[X, Y] = hl.u8((source[X, Y] + source[X + 2, Y + 2]) & 255)
    return finish(across, down, both)


def branches() -> hl.Pipeline:
    """Two chains from one input, of which the regions differ, read where they cannot be computed inside."""
    source = image(WIDTH + 8, HEIGHT + 8)
    first, second = hl.Func("first"), hl.Func("second")
    left, right, output = hl.Func("left"), hl.Func("right"), hl.Func("output")
    first[X, Y] = source[X, Y] * 3 - source[X, Y + 1]
    second[X, Y] = source[X, Y] + 5 * source[X + 1, Y]
    left[X, Y] = first[X, Y] + first[X + 1, Y + 1] - first[X, Y + 2]
    right[X, Y] = second[X, Y] + 2 * second[X, Y + 3]
    output[X, Y] = left[Y, X] + left[Y + 1, X] - right[Y + 2, X + 1]
    return finish(output, sizes=(HEIGHT, WIDTH))


def sums() -> hl.Pipeline:
    """Two reductions of the same input along the same loop, and a third along another."""
    source = image(WIDTH, 30)
    r, k = hl.RDom([(0, 30)], "r"), hl.RDom([(0, 17)], "k")
    once, squared, part, output = hl.Func("once"), hl.Func("squared"), hl.Func("part"), hl.Func("output")
    once[X] = X
    once[X] += source[X, r.x]
    squared[X] = 2
    squared[X] += source[X, r.x] * source[X, r.x]
    part[X] = 1
    part[X] += source[X, k.x]
    output[X, Y] = once[X] + Y * squared[X] - part[X]
    return finish(output)


def crossed() -> hl.Pipeline:
    """Four Funcs of which two pairs could share loops, but not both: each would wait for the other."""
    source = image(WIDTH + 4, HEIGHT + 4)
    a, b, c, d, output = (hl.Func(name) for name in ("a", "b", "c", "d", "output"))
    a[X, Y] = source[X, Y] - source[X + 1, Y]
    b[X, Y] = source[X, Y] * 3 + source[X, Y + 1]
    c[X, Y] = a[X, Y] + a[X + 1, Y] + source[X + 2, Y]
    d[X, Y] = b[X, Y] - b[X, Y + 1] + source[X, Y + 2]
    output[X, Y] = c[X, Y] + c[X, Y + 1] + d[X, Y] * d[X + 1, Y]
    return finish(output)


BUILDS = (gradients, branches, sums, crossed)


@cache
def fusing_space(build: Build) -> tuple[PipelineDag, _core.Space]:
    options = _core.SpaceOptions()
    options.allow_fuse = True
    dag = extract(build())
    return dag, make_space(dag, options=options)


def followers(leaf: _core.States) -> list[_core.StageNest]:
    return [nest for schedule in leaf.describe() for nest in schedule.stages if nest.leader >= 0]


def fused(space: _core.Space, tries: int = 3000) -> Iterator[_core.States]:
    """Random loop nests in which loops are shared wherever that is possible."""
    for seed in range(tries):
        state = space.root()
        while len(state) and int(state.decisions_made[0]) < space.decision_count:
            children, _ = space.expand(state) if is_fusing(space, state) else (space.sample(state, [seed]), None)
            state = children.take([len(children) - 1 - seed % len(children) // 2])
        if followers(state):
            yield state


def is_fusing(space: _core.Space, state: _core.States) -> bool:
    """Are only the decisions left that come after those on all Funcs?"""
    left = space.decision_funcs[int(state.decisions_made[0]) :]
    return len(left) <= space.decision_count - plain_count(space)


@cache
def plain_count(space: _core.Space) -> int:
    options = space.options
    options.allow_fuse = False
    return int(space.restrict(options).decision_count)


def sharing_search(build: Build, *, fuse: bool) -> list[Call]:
    options = SearchOptions(strategy="greedy", fuse=fuse, budget_seconds=None, weights="analytical")
    found = Planner(build(), options, target=SOME_TARGET, machine=some_machine()).search()
    candidate = next(iter(found.candidates))
    return [directive.call for directive in candidate.directives()]


@pytest.mark.parametrize("build", slow_but([sums], BUILDS, further=[gradients, crossed]))
def test_shared_loops_keep_the_result(build: Build) -> None:
    dag, space = fusing_space(build)
    runs = ExactRuns(build.__name__, build)
    leaves = list(islice(fused(space), 4))
    assert len(leaves) == 4
    for leaf in leaves:
        schedule = schedule_of(build, dag, leaf)
        calls = [directive.call for directive in schedule.directives]
        assert calls.count(Call.COMPUTE_WITH) == len(followers(leaf))
        runs.check(schedule)


def sizes() -> hl.Pipeline:
    """Outputs of two sizes, so that shared loops go further than either of them."""
    source = image(WIDTH + 3, 3 * HEIGHT)
    wide, high = hl.Func("wide"), hl.Func("high")
    wide[X, Y] = source[X, Y] + source[X + 3, Y]
    high[X, Y] = source[X, Y] - source[X, Y + 1]
    wide.set_estimates([(0, WIDTH), (0, HEIGHT)])
    high.set_estimates([(0, WIDTH // 2), (0, 2 * HEIGHT)])
    return hl.Pipeline([wide, high])


@pytest.mark.slow
def test_outputs_of_different_sizes_share_loops() -> None:
    dag, space = fusing_space(sizes)
    leaves = list(islice(fused(space), 4))
    assert len(leaves) == 4
    buffers = [[(WIDTH, HEIGHT), (WIDTH // 2, 2 * HEIGHT)], [(1, 1), (1, 1)], [(37, 5), (3, 29)], [(2, 31), (39, 7)]]
    for leaf in leaves:
        compare(sizes, schedule_of(sizes, dag, leaf), buffers)


def test_no_guard_of_a_leader_encloses_a_shared_loop() -> None:
    # Halide 21 puts the condition of a split outside of shared loops that it does not depend on, and loses rows of the
    # follower there.
    found = 0
    for build in BUILDS:
        dag, space = fusing_space(build)
        for leaf in islice(fused(space), 40):
            schedules = leaf.describe()
            for nest in followers(leaf):
                leader = dag.stages[nest.leader]
                around = schedules[leader.func].stages[leader.index]
                for loop in range(len(leader.loops)):
                    turning = [level for level, trips in enumerate(around.levels) if trips[loop] > 1]
                    is_all_shared = len(turning) > 1 and turning[-1] <= nest.shared_level
                    assert not is_all_shared or turning[-1] == nest.shared_level
                    found += is_all_shared
    assert found


def test_funcs_that_would_wait_for_each_other_do_not_share() -> None:
    dag, space = fusing_space(crossed)
    names = [func.name.split("$")[0] for func in dag.funcs]
    pairs = set()
    for leaf in islice(fused(space), 60):
        shared = {
            frozenset((names[schedule.func], names[dag.stages[nest.leader].func]))
            for schedule in leaf.describe()
            for nest in schedule.stages
            if nest.leader >= 0
        }
        pairs |= shared
        assert not {frozenset("ad"), frozenset("bc")} <= shared
    assert len(pairs) > 2


def test_what_both_read_is_counted_once_and_one_loop_is_started() -> None:
    dag, space = fusing_space(gradients)
    columns = list(space.feature_table())
    state = next(fused(space))
    path = space.path(state)
    plain = space.replay([*path[: plain_count(space)], *(keep(d) for d in path[plain_count(space) :])])
    assert not followers(plain)
    model = _core.CostModel()
    with_shared, without = space.stage_costs(state, model), space.stage_costs(plain, model)
    row, plain_row = space.featurize(state)[0], space.featurize(plain)[0]
    for schedule in state.describe():
        for stage, nest in zip(dag.funcs[schedule.func].stages, schedule.stages, strict=False):
            if nest.leader >= 0:
                assert row[stage, columns.index("is_follower")] == 1
                assert plain_row[stage, columns.index("is_follower")] == 0
                assert with_shared[stage] < without[stage]


def keep(decision: tuple[int, ...]) -> tuple[int, ...]:
    """The decision to leave the loops of the same Stage alone."""
    none = (0, *decision[1:3], -1, 0, 0, -1, 1, 0, 0)
    return (*none, *[0] * (len(decision) - len(none)))


def large() -> hl.Pipeline:
    """Outputs that read an input too large for any cache."""
    source, sides = image(4097, 3072), (4096, 3072)
    first, second = hl.Func("first"), hl.Func("second")
    first[X, Y] = source[X, Y] + source[X + 1, Y]
    second[X, Y] = source[X, Y] - source[X + 1, Y]
    return finish(first, second, sizes=sides)


def test_loops_are_shared_where_that_is_asked_for_and_saves_traffic() -> None:
    assert Call.COMPUTE_WITH in sharing_search(large, fuse=True)
    assert Call.COMPUTE_WITH not in sharing_search(large, fuse=False)


def program() -> hl.Pipeline:
    return PipelineSource.parse("random:100105/least_funcs=3/most_funcs=40/size=4").build()


@pytest.mark.slow
def test_loops_with_and_without_guards_are_shared() -> None:
    dag, space = fusing_space(program)
    gate = make_gate(program)
    mixed = 0
    for leaf in islice(fused(space), 12):
        schedule = schedule_of(program, dag, leaf)
        assert gate.refusal(schedule) == ""
        tails = {func: set() for func in range(len(dag.funcs))}
        for directive in schedule.directives:
            if directive.call is Call.SPLIT:
                tails[directive.func].add(directive.args[-1])
        for directive in schedule.directives:
            if directive.call is Call.COMPUTE_WITH:
                mixed += tails[directive.func] != tails[directive.args[0].func]
    assert mixed
