"""Updates over an RDom whose turns do not meet: their loops are tiled, parallel and in vectors as those over points."""

from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import ExactRuns, X, Y, cpu_space, finish, image, schedule_of, some_machine

import metol
from metol import _core
from metol.lower import Call, Directive, cpu_directives
from metol.pipeline import extract

COLUMNS, ROWS = 70, 37
Build = Callable[[], hl.Pipeline]


def interior() -> hl.Pipeline:
    """All but the border is computed by an update, in tiles of which the last is cut short."""
    source, inner, output = image(COLUMNS, ROWS), hl.Func("inner"), hl.Func("output")
    r = hl.RDom([(1, COLUMNS - 2), (1, ROWS - 2)], "r")
    inner[X, Y] = source[X, Y]
    inner[r.x, r.y] = source[r.x - 1, r.y] + source[r.x + 1, r.y] * 3 - source[r.x, r.y - 1]
    output[X, Y] = inner[X, Y] + inner[X, Y] * 2
    return finish(output, sizes=(COLUMNS, ROWS))


def pasted() -> hl.Pipeline:
    """An image goes into another, somewhere; what is pasted is computed for it."""
    source, softened, both, output = image(COLUMNS, ROWS), hl.Func("softened"), hl.Func("both"), hl.Func("output")
    r = hl.RDom([(0, COLUMNS - 10), (0, ROWS - 10)], "r")
    softened[X, Y] = source[X, Y] + source[X + 1, Y] + source[X, Y + 1]
    both[X, Y] = X - Y
    both[r.x + 3, r.y + 5] += softened[r.x, r.y] * softened[r.x + 2, r.y + 1]
    output[X, Y] = both[X, Y] * 3 - both[X + 1, Y]
    return finish(output, sizes=(COLUMNS, ROWS))


def row_sums() -> hl.Pipeline:
    """Each row is summed up by itself."""
    source, sums, output = image(COLUMNS, ROWS), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(1, COLUMNS - 1), (0, ROWS)], "r")
    sums[X, Y] = source[X, Y]
    sums[r.x, r.y] += sums[r.x - 1, r.y] * 3
    output[X, Y] = sums[X, Y] - 1
    return finish(output, sizes=(COLUMNS, ROWS))


def products() -> hl.Pipeline:
    """A product of matrices of which the update is told by loops of an RDom alone."""
    source, sums, output = image(ROWS, ROWS), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, ROWS), (0, ROWS), (0, ROWS)], "r")
    sums[X, Y] = 0
    sums[r.x, r.y] += source[r.z, r.y] * source[r.x, r.z]
    output[X, Y] = sums[X, Y] * 2
    return finish(output, sizes=(ROWS, ROWS))


def planes() -> hl.Pipeline:
    """Some planes are made anew, each for all points at once."""
    source, levels, output = image(COLUMNS, ROWS), hl.Func("levels"), hl.Func("output")
    r, plane = hl.RDom([(1, 9)], "r"), hl.Var("plane")
    levels[X, Y, plane] = source[X, Y]
    levels[X, Y, r.x] += source[X + r.x, Y] * r.x
    output[X, Y] = levels[X, Y, 0] + levels[X, Y, 1] * levels[X + 1, Y, 3]
    return finish(output, sizes=(COLUMNS, ROWS))


def update_of(build: Build) -> _core.Stage:
    return next(stage for stage in extract(build()).stages if stage.index == 1)


@pytest.mark.parametrize(
    ("build", "walked"),
    [
        (interior, {"x": 0, "y": 1}),
        (pasted, {"x": 0, "y": 1}),
        (row_sums, {"y": 1}),
        (products, {"x": 0, "y": 1}),
        (planes, {"x": 2}),
    ],
)
def test_which_dimension_each_free_loop_walks(build: Build, walked: dict[str, int]) -> None:
    rvars = [loop for loop in update_of(build).loops if loop.is_rvar]
    assert {loop.name.split("$")[1]: loop.pure_dim for loop in rvars if not loop.is_reduction} == walked
    assert all(loop.pure_dim == -1 for loop in rvars if loop.is_reduction)


def strided(r: hl.RDom) -> tuple[hl.Expr, hl.Expr, hl.Expr]:
    return 2 * r.x, r.y, 1


def together(r: hl.RDom) -> tuple[hl.Expr, hl.Expr, hl.Expr]:
    return r.x + r.y, r.y, 1


def in_few_rows(r: hl.RDom) -> tuple[hl.Expr, hl.Expr, hl.Expr]:
    return r.x, r.z, r.z


def partly(r: hl.RDom) -> tuple[hl.Expr, hl.Expr, hl.Expr]:
    r.where(r.x <= r.y)
    return r.x, r.y, 1


def mirrored(r: hl.RDom) -> tuple[hl.Expr, hl.Expr, hl.Expr]:
    return 40 - r.x, r.y, 1


@pytest.mark.parametrize(
    ("write", "free"),
    [
        (strided, [False, True, False]),
        (together, [False, True, False]),
        (in_few_rows, [True, False, False]),
        (partly, [False, False, False]),
    ],
)
def test_loops_that_jump_that_are_short_or_that_a_condition_ends_are_no_free_ones(
    write: Callable[[hl.RDom], tuple[hl.Expr, hl.Expr, hl.Expr]], free: list[bool]
) -> None:
    def build() -> hl.Pipeline:
        output, r = hl.Func("output"), hl.RDom([(0, 20), (0, 20), (0, 3)], "r")
        column, row, value = write(r)
        output[X, Y] = 0
        output[column, row] = value
        return finish(output)

    assert [not loop.is_reduction for loop in update_of(build).loops] == free


@pytest.mark.parametrize("write", [strided, together, partly, mirrored])
def test_updates_that_jump_stay_right(write: Callable[[hl.RDom], tuple[hl.Expr, hl.Expr, hl.Expr]]) -> None:
    def build() -> hl.Pipeline:
        places, output, r = hl.Func("places"), hl.Func("output"), hl.RDom([(0, 20), (0, 20), (0, 3)], "r")
        column, row, _ = write(r)
        places[X, Y] = X
        places[column, row] += r.x * 3 + 1
        output[X, Y] = places[X, Y] + 1
        return finish(output)

    dag, space = cpu_space(build)
    runs = ExactRuns(write.__name__, build)
    leaves = space.rollout(space.root(), range(8))
    for i in range(8):
        runs.check(schedule_of(build, dag, leaves.take([i])))


def directives_of_update(directives: tuple[Directive, ...], call: Call) -> list[Directive]:
    return [one for one in directives if one.stage == 1 and one.call is call]


@pytest.mark.parametrize("build", [interior, pasted, row_sums, products, planes])
def test_loop_nests_at_random_compute_the_same(build: Build) -> None:
    dag, space = cpu_space(build)
    leaves = space.rollout(space.root(), range(24))
    runs = ExactRuns(build.__name__, build)
    seen = set()
    for i in range(24):
        state = leaves.take([i])
        directives = cpu_directives(dag, state.describe())
        seen |= {one.call for one in directives if one.stage == 1}
        # Of planes, the one at 18 takes LLVM three minutes to compile below AVX-512: single bytes of many vectors.
        if i % 2 == 0 and i < 18:
            runs.check(schedule_of(build, dag, state))
    assert Call.PARALLEL in seen
    assert Call.VECTORIZE in seen


@pytest.mark.parametrize("build", [interior, pasted, products])
def test_the_best_schedule_has_tasks_and_vectors(build: Build) -> None:
    result = metol.autoschedule(build(), machine=some_machine(), threads=2)
    assert directives_of_update(result.schedule.directives, Call.VECTORIZE)


def lower_triangle() -> hl.Pipeline:
    """Of a product that an RDom tells alone, terms to the diagonal: a condition on two loops, not on the third."""
    source, sums, output = image(ROWS, ROWS), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, ROWS), (0, ROWS), (0, ROWS)], "r")
    r.where(r.z <= r.y)
    sums[X, Y] = 0
    sums[r.x, r.y] += source[r.z, r.y] * source[r.x, r.z]
    output[X, Y] = sums[X, Y] * 2
    return finish(output, sizes=(ROWS, ROWS))


def test_a_condition_on_others_leaves_a_loop_free() -> None:
    assert [loop.name.split("$")[1] for loop in update_of(lower_triangle).loops if not loop.is_reduction] == ["x"]
    dag, space = cpu_space(lower_triangle)
    runs = ExactRuns("lower_triangle", lower_triangle)
    leaves = space.rollout(space.root(), range(6))
    for i in range(6):
        runs.check(schedule_of(lower_triangle, dag, leaves.take([i])))
    result = metol.autoschedule(lower_triangle(), machine=some_machine(), threads=2)
    assert directives_of_update(result.schedule.directives, Call.VECTORIZE)
    assert directives_of_update(result.schedule.directives, Call.PARALLEL)
