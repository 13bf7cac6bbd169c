"""Several iterations of a loop are looked at where they differ: a matrix plus its transpose (Adams et al. 2019, §7)."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from inside_tiles import computed_in_tiles, space_of, tile_of
from small_pipelines import PIPELINES, C, X, Y, finish, func_named, image, make_space, symmetric

from metol import SearchOptions, _core, autoschedule
from metol.pipeline import PipelineDag, extract
from metol.targets.cpu import CpuMachine

SIZE = 512
TRIES = 400


def plus_transpose() -> hl.Pipeline:
    source, once, output = image(SIZE, SIZE), hl.Func("once"), hl.Func("output")
    once[X, Y] = source[X, Y] * source[X, Y]
    output[X, Y] = once[X, Y] + once[Y, X + 3]
    return finish(output, sizes=(SIZE - 3, SIZE - 3))


def plus_transpose_inside() -> hl.Pipeline:
    """The transpose is a Func of its own."""
    source, once, turned, output = image(SIZE, SIZE), hl.Func("once"), hl.Func("turned"), hl.Func("output")
    once[X, Y] = source[X, Y] * source[X, Y]
    turned[X, Y] = once[Y, X] + 1
    output[X, Y] = once[X, Y] + turned[X, Y]
    return finish(output, sizes=(SIZE, SIZE))


def mirrored() -> hl.Pipeline:
    source, once, output = image(SIZE), hl.Func("once"), hl.Func("output")
    once[X] = source[X] * source[X]
    output[X] = once[X] + once[SIZE - 1 - X]
    return finish(output, sizes=(SIZE,))


def squared() -> hl.Pipeline:
    """A matrix times its transpose."""
    source, output = image(SIZE, SIZE), hl.Func("output")
    r = hl.RDom([(0, SIZE)], "r")
    output[X, Y] = 0
    output[X, Y] += source[r, X] * source[r, Y]
    return finish(output, sizes=(SIZE, SIZE))


def gray() -> hl.Pipeline:
    """One channel beside all three of a pixel: never far apart."""
    source, once, output = image(SIZE, SIZE, 3), hl.Func("once"), hl.Func("output")
    once[X, Y, C] = source[X, Y, C] * 2
    output[X, Y, C] = once[X, Y, C] * (once[X, Y, 0] + once[X, Y, 1] + once[X, Y, 2])
    return finish(output, sizes=(SIZE, SIZE, 3))


def normalized() -> hl.Pipeline:
    """A sum of all goes over everything in every iteration."""
    source, once, total, output = image(SIZE, SIZE), hl.Func("once"), hl.Func("total"), hl.Func("output")
    r = hl.RDom([(0, SIZE), (0, SIZE)], "r")
    once[X, Y] = source[X, Y] * 3
    total[()] = 0
    total[()] += once[r.x, r.y]
    output[X, Y] = once[X, Y] - total[()]
    return finish(output, sizes=(SIZE, SIZE))


def up_and_down() -> hl.Pipeline:
    """Half as large and as large again: a point still needs its neighbourhood."""
    source, small, output = image(SIZE + 2, SIZE), hl.Func("small"), hl.Func("output")
    small[X, Y] = source[2 * X, Y] + source[2 * X + 1, Y]
    output[X, Y] = small[X // 2, Y] + small[X // 2 + X % 2, Y] + source[X, Y]
    return finish(output, sizes=(SIZE, SIZE))


def filtered() -> hl.Pipeline:
    """A window of 65 points that moves along."""
    source, once, output = image(SIZE + 64, SIZE), hl.Func("once"), hl.Func("output")
    r = hl.RDom([(0, 65)], "r")
    once[X, Y] = source[X, Y] * 3
    output[X, Y] = 0
    output[X, Y] += once[X + r.x, Y]
    return finish(output, sizes=(SIZE, SIZE))


def swept_and_turned() -> hl.Pipeline:
    """What goes over everything in each iteration does not hide what moves."""
    source, once, total = image(SIZE, SIZE), hl.Func("once"), hl.Func("z_total")
    both, output = hl.Func("a_both"), hl.Func("output")
    r = hl.RDom([(0, SIZE), (0, SIZE)], "r")
    once[X, Y] = source[X, Y] * 3
    total[()] = 0
    total[()] += once[r.x, r.y]
    both[X, Y] = once[X, Y] + once[Y, X]
    output[X, Y] = both[X, Y] - total[()]
    return finish(output, sizes=(SIZE, SIZE))


def turned() -> hl.Pipeline:
    """All of it across, and nothing along."""
    source, once, output = image(SIZE, SIZE), hl.Func("once"), hl.Func("output")
    once[X, Y] = source[X, Y] * 3
    output[X, Y] = once[Y, X] + once[Y + 1, X]
    return finish(output, sizes=(SIZE, SIZE - 1))


def names(dag: PipelineDag, ids: list[int]) -> set[str]:
    return {dag.funcs[i].name.split("$")[0] for i in ids}


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (plus_transpose, {"once", "source_im"}),
        (plus_transpose_inside, {"once", "source_im"}),
        (mirrored, {"once", "source_im"}),
        (squared, {"source_im"}),
        (symmetric, {"once", "source_im"}),
        (gray, set()),
        (normalized, set()),
        (up_and_down, set()),
        (filtered, set()),
        (swept_and_turned, {"once", "source_im"}),
        (turned, set()),
    ],
)
def test_what_is_read_along_and_across_is_found(build: Callable[[], hl.Pipeline], expected: set[str]) -> None:
    dag = extract(build())
    crosswise = make_space(dag).crosswise
    (output, *_) = dag.outputs
    assert names(dag, crosswise[output]) == expected


def test_each_way_of_reading_has_its_own_bounds() -> None:
    dag = extract(plus_transpose())
    (stage,) = (dag.stages[s] for s in dag.funcs[dag.outputs[0]].stages)
    (edge,) = stage.edges
    loops = [(32, 47), (320, 351)]  # x, y
    regions = {tuple((b.evaluate(loops).min, b.evaluate(loops).max) for b in a.bounds) for a in edge.accesses}
    assert regions == {((32, 47), (320, 351)), ((320, 351), (35, 50))}
    assert [(b.evaluate(loops).min, b.evaluate(loops).max) for b in edge.bounds] == [(32, 351), (35, 351)]


def test_conditions_of_a_reduction_are_read_in_their_way() -> None:
    source, output = image(SIZE, SIZE), hl.Func("output")
    r = hl.RDom([(0, SIZE - 50)], "r")
    r.where(source[r.x, Y + 50] > 0)
    output[X, Y] = 0
    output[X, Y] += source[r.x, Y] * source[r.x, X]
    dag = extract(finish(output, sizes=(SIZE - 50, SIZE - 50)))
    (edge,) = dag.stages[dag.funcs[dag.outputs[0]].stages[1]].edges
    loops = [(0, SIZE - 51), (8, 15), (100, 119)]  # r, x, y
    regions = {tuple((b.evaluate(loops).min, b.evaluate(loops).max) for b in a.bounds) for a in edge.accesses}
    assert regions == {((0, SIZE - 51), (8, 15)), ((0, SIZE - 51), (100, 169))}


def test_a_way_of_reading_without_an_end_has_no_bounds_of_its_own() -> None:
    shift, once, output = image(1, name="shift"), hl.Func("once"), hl.Func("output")
    once[X, Y] = X * Y
    output[X, Y] = once[X + shift[0], Y] + once[Y, X]
    dag = extract(finish(output))
    (stage,) = (dag.stages[s] for s in dag.funcs[dag.outputs[0]].stages)
    accesses = [a for edge in stage.edges if dag.funcs[edge.producer].name.startswith("once") for a in edge.accesses]
    assert len(accesses) == 2
    assert all(not access.bounds for access in accesses)


def two_readers() -> hl.Pipeline:
    """Whether `plain` is inlined into the second output is nothing to the first."""
    source, once = image(SIZE, SIZE), hl.Func("once")
    left, right, plain = hl.Func("left"), hl.Func("right"), hl.Func("plain")
    first, second = hl.Func("first"), hl.Func("second")
    once[X, Y] = source[X, Y] * 3
    left[X, Y] = once[X, Y] + 1
    right[X, Y] = once[X, Y] + 2
    plain[X, Y] = once[X, Y] + 3
    first[X, Y] = left[X, Y] * right[Y, X]
    second[X, Y] = plain[X, Y] * 2
    return finish(first, second, sizes=(SIZE, SIZE))


def test_costs_do_not_depend_on_what_was_costed_before() -> None:
    dag = extract(two_readers())
    model = _core.CostModel()
    forward, backward = make_space(dag), make_space(dag)
    leaves = forward.rollout(forward.root(), range(TRIES))
    paths = [forward.path(leaves.take([i])) for i in range(TRIES)]
    costs = [float(forward.cost(forward.replay(path), model)[0]) for path in paths]
    again = [float(backward.cost(backward.replay(path), model)[0]) for path in reversed(paths)]
    assert costs == again[::-1]


def test_one_way_of_reading_needs_no_bounds_of_its_own() -> None:
    for stage in extract(PIPELINES["pyramid"]()).stages:
        assert all(not access.bounds for edge in stage.edges for access in edge.accesses)


def hulls(x: int, y: int) -> int:
    """The points of the boxes around each tile and its mirror image, over all whole tiles of the output."""
    points = 0
    for left in range(0, SIZE, x):
        for top in range(0, SIZE, y):
            side = max(left + x, top + y) - min(left, top)
            points += side * side
    return points


def test_work_inside_a_tile_is_close_to_that_of_all_tiles() -> None:
    dag, space = space_of(plus_transpose_inside, iterations=True)
    _, middle_space = space_of(plus_transpose_inside, iterations=False)
    once = func_named(dag, "once")
    (stage,) = dag.funcs[once].stages
    column = list(space.feature_table()).index("points_computed_total")
    ratios, off = [], []
    for leaf, nests, (x, y) in computed_in_tiles(dag, space, once):
        if SIZE % x or SIZE % y or x * y < 64 or x > SIZE // 4 or y > SIZE // 4 or nests[once].slide_dim >= 0:
            continue
        (rows,) = space.featurize(leaf)
        ratios.append(rows[stage][column] / hulls(x, y))
        (rows,) = middle_space.featurize(middle_space.replay(space.path(leaf)))
        off.append(rows[stage][column] / hulls(x, y))
    assert len(ratios) >= 8
    assert min(ratios) > 0.6
    assert max(ratios) < 1.7
    assert np.median(off) < 0.2


def test_two_tiles_are_read_off_the_diagonal() -> None:
    dag, space = space_of(squared, iterations=True)
    _, middle_space = space_of(squared, iterations=False)
    update = dag.funcs[dag.outputs[0]].stages[1]
    column = list(space.feature_table()).index("unique_bytes_read_per_task")
    leaves = space.rollout(space.root(), range(TRIES))
    ratios = []
    for i in range(TRIES):
        leaf = leaves.take([i])
        nest = leaf.describe()[dag.outputs[0]].stages[1]
        terms, x, y = tile_of(nest, 0, 0, 1, 2)
        # Square tiles of all terms, several along each side.
        if not nest.is_parallel or x != y or not 8 <= x <= SIZE // 4 or terms != SIZE:
            continue
        (rows,) = space.featurize(leaf)
        (middle,) = middle_space.featurize(middle_space.replay(space.path(leaf)))
        ratios.append(rows[update][column] / middle[update][column])
    assert ratios
    assert all(1.7 < ratio <= 2 for ratio in ratios)


@pytest.mark.parametrize("build", [plus_transpose, plus_transpose_inside])
def test_what_is_read_along_and_across_is_computed_once(build: Callable[[], hl.Pipeline]) -> None:
    dag = extract(build())
    once = func_named(dag, "once")
    options = SearchOptions(budget_seconds=None)
    found = autoschedule(build(), machine=CpuMachine.default(threads=2), options=options, verify=True)
    assert found.origin == "search"
    assert not [d for d in found.schedule.directives if d.func == once and d.call.value == "compute_at"]
