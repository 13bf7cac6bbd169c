"""Sums inside a pipeline compute whole vectors, for a guard of their lanes makes each lane of a gather a branch."""

from collections.abc import Callable

import halide as hl
import pytest
from slow_cases import slow_but
from small_pipelines import (
    HEIGHT,
    WIDTH,
    ExactRuns,
    X,
    Y,
    cpu_space,
    finish,
    func_named,
    gpu_space,
    image,
    schedule_of,
)

from metol import _core
from metol.lower import Call, Directive, Tail, gpu_directives
from metol.pipeline import PipelineDag

ROLLOUTS = 150


def sums(source: hl.Func) -> hl.Pipeline:
    """Sums of every second pixel of a row, read twice."""
    summed, output = hl.Func("summed"), hl.Func("output")
    k = hl.RDom([(0, 5)], "k")
    summed[X, Y] = X
    summed[X, Y] += source[(X + k) // 2, Y] * (k + 1)
    output[X, Y] = summed[X, Y] - summed[X + 1, Y]
    return finish(output)


def clamped_sums() -> hl.Pipeline:
    """What is beyond the edges is never read."""
    source = image(WIDTH, HEIGHT)
    sides = source.dim(0).extent() - 1, source.dim(1).extent() - 1
    edges = hl.Func("edges")
    edges[X, Y] = source[hl.clamp(X, 0, sides[0]), hl.clamp(Y, 0, sides[1])]
    return sums(edges)


def open_sums() -> hl.Pipeline:
    """More pixels of the input are needed for more sums."""
    held, source = hl.Func("held"), image(WIDTH, HEIGHT)
    held[X, Y] = source[X, Y] * 3
    return sums(held)


def splits_along_vectors(build: Callable[[], hl.Pipeline]) -> tuple[list[Directive], list[_core.States], PipelineDag]:
    """Return the splits of whole loops that run in vectors, of all updates of random loop nests."""
    dag, space = cpu_space(build)
    summed = func_named(dag, "summed")
    found, kept = [], []
    rolled = space.rollout(space.root(), range(ROLLOUTS))
    for number in range(ROLLOUTS):
        leaf = rolled.take([number])
        schedule = leaf.describe()[summed]
        vector_loop = schedule.stages[1].vector_loop if len(schedule.stages) > 1 else -1
        loop = dag.stages[dag.funcs[summed].stages[1]].loops[vector_loop]
        if vector_loop < 0 or loop.is_reduction:
            continue
        kept.append(leaf)
        found += [
            directive
            for directive in schedule_of(build, dag, leaf).directives
            if (directive.func, directive.stage, directive.call) == (summed, 1, Call.SPLIT)
            and directive.args[0].name in (loop.name, f"{loop.name}_u1_all")
        ]
    return found, kept, dag


@pytest.mark.slow
def test_sums_that_read_no_more_of_an_input_round_vectors_up() -> None:
    splits, leaves, dag = splits_along_vectors(clamped_sums)
    widths = {stage.vector_width for leaf in leaves for s in leaf.describe() for stage in s.stages}
    assert splits
    assert {d.args[-1] for d in splits} == {Tail.ROUND_UP}
    # The tile is split off first, and what is around it with a guard.
    assert all(d.args[3] % min(widths - {1, 0}) == 0 for d in splits)
    assert max(d.args[3] for d in splits) < WIDTH * HEIGHT
    outside = [
        directive
        for leaf in leaves
        for directive in schedule_of(clamped_sums, dag, leaf).directives
        if directive.call is Call.SPLIT and directive.stage == 1 and directive.args[0].name.endswith("_out")
    ]
    assert {d.args[-1] for d in outside} == {Tail.GUARD_WITH_IF}


def test_sums_that_would_read_more_of_an_input_are_guarded() -> None:
    splits, _, _ = splits_along_vectors(open_sums)
    direct = {d.args[-1] for d in splits}
    assert Tail.GUARD_WITH_IF in direct


@pytest.mark.parametrize(("build", "tail"), [(clamped_sums, Tail.ROUND_UP), (open_sums, Tail.GUARD_WITH_IF)])
def test_blocks_of_sums_on_a_gpu_are_whole_where_they_read_no_more_of_an_input(
    build: Callable[[], hl.Pipeline], tail: Tail
) -> None:
    dag, space = gpu_space(build)
    summed = func_named(dag, "summed")
    rolled = space.rollout(space.root(), range(ROLLOUTS))
    described = (rolled.take([number]).describe() for number in range(ROLLOUTS))
    source = func_named(dag, "held" if build is open_sums else "edges")
    places = _core.Placement.ROOT, _core.Placement.INLINE
    at_root = [one for one in described if (one[summed].placement, one[source].placement) == places]
    tails = {
        (directive.stage, directive.args[-1])
        for one in at_root
        for directive in gpu_directives(dag, one)
        if directive.func == summed and directive.call is Call.SPLIT and str(directive.args[1].name).endswith("block")
    }
    assert tails == {(0, Tail.ROUND_UP), (1, tail)}


@pytest.mark.parametrize(
    "build", slow_but((), [clamped_sums, open_sums], further=[open_sums]), ids=lambda build: build.__name__
)
def test_sums_are_right_at_every_size(build: Callable[[], hl.Pipeline]) -> None:
    _, leaves, dag = splits_along_vectors(build)
    runs = ExactRuns(build.__name__, build)
    for leaf in leaves[:8]:
        runs.check(schedule_of(build, dag, leaf))
