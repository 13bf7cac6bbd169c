"""At the borders of a mirrored or repeated image far more is computed than in its middle (Adams et al. 2019, §7)."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from inside_tiles import computed_in_tiles, space_of
from small_pipelines import X, Y, finish, func_named, image, make_space

from metol import _core
from metol.pipeline import PipelineDag, extract

SIZE = 512
REACH = 5

Extend = Callable[[hl.Func | hl.ImageParam], hl.Func]
BOUNDS = [(0, SIZE), (0, SIZE)]


def mirrored(inner: hl.Func | hl.ImageParam) -> hl.Func:
    return hl.BoundaryConditions.mirror_interior(inner, BOUNDS)


def repeated(inner: hl.Func | hl.ImageParam) -> hl.Func:
    return hl.BoundaryConditions.repeat_image(inner, BOUNDS)


def held(inner: hl.Func | hl.ImageParam) -> hl.Func:
    return hl.BoundaryConditions.repeat_edge(inner, BOUNDS)


def black(inner: hl.Func | hl.ImageParam) -> hl.Func:
    return hl.BoundaryConditions.constant_exterior(inner, 0, BOUNDS)


def in_turn(inner: hl.Func | hl.ImageParam) -> hl.Func:
    """Rows of four, as they repeat everywhere."""
    rows = hl.Func("rows")
    rows[X, Y] = inner[hl.clamp(X, 0, SIZE - 1), Y % 4]
    return rows


def read(extended: hl.Func) -> hl.Func:
    """A window that reaches beyond all four edges."""
    output = hl.Func("output")
    output[X, Y] = extended[X - REACH, Y] + extended[X + REACH, Y] + extended[X, Y - REACH] + extended[X, Y + REACH]
    return output


def read_ahead(extended: hl.Func) -> hl.Func:
    """A point that lies beyond one edge."""
    output = hl.Func("output")
    output[X, Y] = extended[X + REACH, Y]
    return output


def extended(extend: Extend, use: Callable[[hl.Func], hl.Func] = read) -> hl.Pipeline:
    source, once = image(SIZE, SIZE), hl.Func("once")
    once[X, Y] = source[X, Y] * source[X, Y]
    return finish(use(extend(once)), sizes=(SIZE, SIZE))


def borders_of(dag: PipelineDag, space: _core.Space, producer: str) -> list[tuple[int, int, int]]:
    wanted = func_named(dag, producer)
    found = space.borders[dag.outputs[0]]
    return [(border.dimension, border.first, border.last) for border in found if border.producer == wanted]


@pytest.mark.parametrize("extend", [mirrored, repeated])
def test_borders_are_as_deep_as_reads_reach_beyond_an_edge(extend: Extend) -> None:
    dag = extract(extended(extend))
    assert borders_of(dag, make_space(dag), "once") == [(0, REACH, REACH), (1, REACH, REACH)]


@pytest.mark.parametrize("extend", [held, black, in_turn])
def test_nothing_has_borders_that_needs_no_more_there(extend: Extend) -> None:
    assert not any(make_space(extract(extended(extend))).borders)


def test_one_end_alone_may_be_a_border() -> None:
    dag = extract(extended(repeated, read_ahead))
    assert borders_of(dag, make_space(dag), "once") == [(0, 0, REACH)]


class Inferred:
    """What Halide itself needs of an extended image for a tile of what is read of it."""

    def __init__(self, extend: Extend, use: Callable[[hl.Func], hl.Func]) -> None:
        self._image = image(SIZE, SIZE)
        self._output = use(extend(self._image))

    def extents(self, dimension: int, side: int) -> int:
        """Points along a dimension, over all tiles of so many points along it."""
        return sum(self._extent(dimension, start, side) for start in range(0, SIZE, side))

    def _extent(self, dimension: int, start: int, side: int) -> int:
        tile = hl.Buffer(hl.Int(32), [side if d == dimension else 1 for d in range(2)])
        tile.set_min([start if d == dimension else SIZE // 2 for d in range(2)])
        self._image.reset()
        self._output.infer_input_bounds(tile)
        return self._image.get().dim(dimension).extent()


@pytest.mark.parametrize(
    ("extend", "use", "off_by"), [(mirrored, read, 0.6), (repeated, read, 0.6), (repeated, read_ahead, 0.9)]
)
def test_work_inside_tiles_is_that_of_all_tiles(
    extend: Extend, use: Callable[[hl.Func], hl.Func], off_by: float
) -> None:
    dag, space = space_of(lambda: extended(extend, use), iterations=True)
    _, middle_space = space_of(lambda: extended(extend, use), iterations=False)
    once = func_named(dag, "once")
    (stage,) = dag.funcs[once].stages
    columns = list(space.feature_table())
    column = columns.index("points_computed_total")
    same = [columns.index(name) for name in ("vector_size", "inner_parallelism", "num_realizations")]
    inferred, of_tile = Inferred(extend, use), {}
    ratios, off = [], []
    for leaf, nests, (x, y) in computed_in_tiles(dag, space, once):
        if any(nest.slide_dim >= 0 for nest in nests) or SIZE % x or SIZE % y or min(x, y) < 4:
            continue
        if (x, y) not in of_tile:
            of_tile[x, y] = inferred.extents(0, x) * inferred.extents(1, y)
        (rows,) = space.featurize(leaf)
        (middle,) = middle_space.featurize(middle_space.replay(space.path(leaf)))
        ratios.append(rows[stage][column] / of_tile[x, y])
        off.append(middle[stage][column] / of_tile[x, y])
        # What is the same everywhere is not rounded by being averaged.
        assert (rows[:, same] == middle[:, same]).all()
    assert len(of_tile) >= 8
    assert ratios == pytest.approx([1] * len(ratios), rel=0.01)
    assert np.median(off) < off_by


def test_each_end_may_be_that_of_another_func() -> None:
    """What one Func needs at the beginning and another at the end is looked at where it is needed."""
    source, output = image(SIZE, SIZE), hl.Func("output")
    left, right = hl.Func("left"), hl.Func("right")
    left[X, Y] = source[X, Y] * 2
    right[X, Y] = source[X, Y] * 3
    output[X, Y] = repeated(left)[X - REACH, Y] + repeated(right)[X + REACH, Y]
    dag = extract(finish(output, sizes=(SIZE, SIZE)))
    space = make_space(dag)
    column = list(space.feature_table()).index("points_computed_total")
    stages = [dag.funcs[func_named(dag, name)].stages[0] for name in ("left", "right")]
    compared = 0
    for leaf, nests, _ in computed_in_tiles(dag, space, dag.stages[stages[0]].func):
        sites = [nests[dag.stages[stage].func].compute for stage in stages]
        is_inside = nests[dag.stages[stages[1]].func].placement == _core.Placement.AT
        is_alike = (sites[0].stage, sites[0].level) == (sites[1].stage, sites[1].level)
        if is_inside and is_alike and not any(nest.slide_dim >= 0 for nest in nests):
            (rows,) = space.featurize(leaf)
            of_left, of_right = (rows[stage][column] for stage in stages)
            assert of_left == pytest.approx(of_right, rel=0.05)
            compared += 1
    assert compared >= 5
