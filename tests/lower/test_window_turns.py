"""Windows that slide over tiles of sums: Halide folds them where no guard cuts one short, so tiles are rounded up."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

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
    image,
    schedule_of,
    schedule_with,
)

from metol import _core
from metol.lower import Call, Directive, Schedule, Tail
from metol.pipeline import PipelineDag

ROLLOUTS = 1500
RUNS = 4
ROWS = 5
STORED = re.compile(r"allocate source_rows(?:\$\d+)?\[int32 \* (.*)\]")


def sums(source: Callable[[hl.Expr, hl.Expr], hl.Expr]) -> hl.Pipeline:
    """Sums of several rows of a Func that lies in memory, read twice."""
    rows, summed, output = hl.Func("source_rows"), hl.Func("summed"), hl.Func("output")
    k = hl.RDom([(0, ROWS)], "k")
    rows[X, Y] = source(X, Y) * 3
    summed[X, Y] = X
    summed[X, Y] += rows[X, Y + k] * (k + 1)
    output[X, Y] = summed[X, Y] - summed[X, Y + 1]
    return finish(output)


def clamped_sums() -> hl.Pipeline:
    """What is beyond the edges is never read."""
    source = image(WIDTH, HEIGHT)
    sides = source.dim(0).extent() - 1, source.dim(1).extent() - 1
    return sums(lambda x, y: source[hl.clamp(x, 0, sides[0]), hl.clamp(y, 0, sides[1])])


def open_sums() -> hl.Pipeline:
    """More rows of the input are needed for more sums."""
    source = image(WIDTH, HEIGHT + ROWS)
    return sums(lambda x, y: source[x, y])


def with_windows(build: Callable[[], hl.Pipeline]) -> Iterator[tuple[Schedule, Directive]]:
    """Schedules whose window slides over tiles of several rows of sums, and how these rows are split."""
    dag, space = cpu_space(build)
    rows, summed = func_named(dag, "source_rows"), func_named(dag, "summed")
    (update,) = dag.funcs[summed].stages[1:]
    along = [loop.pure_dim for loop in dag.stages[update].loops].index(1)
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for leaf in (leaves.take([i]) for i in range(ROLLOUTS)):
        schedules = leaf.describe()
        window = schedules[rows]
        if window.slide_dim < 0 or window.compute.stage != update:
            continue
        nest = schedules[summed].stages[1]
        if [*nest.levels][window.compute.level][along] == 1 or not is_tiled(nest, along):
            continue
        schedule = schedule_of(build, dag, leaf)
        yield schedule, split_of(schedule, dag, summed)


def is_tiled(nest: _core.StageNest, along: int) -> bool:
    """Whether a tile has several rows, and one loop goes over all of them."""
    *outside, tile = ([*level] for level in nest.levels)
    return tile[along] > 1 and sum(trips[along] > 1 for trips in outside) == 1


def split_of(schedule: Schedule, dag: PipelineDag, summed: int) -> Directive:
    (split,) = (
        directive
        for directive in schedule.directives
        if (directive.func, directive.stage, directive.call) == (summed, 1, Call.SPLIT)
        and directive.args[0].name in ("y", "y_u1_all")
    )
    return split


@pytest.mark.parametrize(("build", "tail"), [(clamped_sums, Tail.ROUND_UP), (open_sums, Tail.GUARD_WITH_IF)])
def test_tiles_that_a_window_slides_over_are_rounded_up(build: Callable[[], hl.Pipeline], tail: Tail) -> None:
    found = list(with_windows(build))
    assert found
    assert {split.args[-1] for _, split in found} == {tail}


def is_folded(directives: tuple[Directive, ...], path: Path) -> bool:
    """Whether Halide keeps a number of rows that is known in any of its versions of the code."""
    pipeline = clamped_sums()
    schedule_with(clamped_sums, directives).apply(pipeline)
    pipeline.compile_to_lowered_stmt(str(path), pipeline.infer_arguments(), hl.StmtOutputFormat.Text)
    return any(re.search(r"\* (?:8|16|32)$", size) for size in STORED.findall(path.read_text()))


@pytest.mark.slow
def test_halide_folds_windows_over_such_tiles_and_not_over_guarded_ones(tmp_path: Path) -> None:
    folded, folded_guarded = 0, 0
    for schedule, split in list(with_windows(clamped_sums))[:RUNS]:
        guarded = replace(split, args=(*split.args[:-1], Tail.GUARD_WITH_IF))
        folded += is_folded(schedule.directives, tmp_path / "lowered.stmt")
        with_guard = tuple(guarded if directive is split else directive for directive in schedule.directives)
        folded_guarded += is_folded(with_guard, tmp_path / "guarded.stmt")
    assert folded > folded_guarded


@pytest.mark.parametrize("build", slow_but((), [clamped_sums, open_sums], further=[open_sums]))
def test_such_windows_keep_the_result(build: Callable[[], hl.Pipeline]) -> None:
    runs = ExactRuns(build.__name__, build)
    for schedule, _ in list(with_windows(build))[:RUNS]:
        runs.check(schedule)
