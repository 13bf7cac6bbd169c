"""Arithmetic that moves with some loops alone, and values of Tuples: each is counted as often as it is computed."""

from collections.abc import Callable

import halide as hl
import pytest
from small_pipelines import WIDE_TARGET, X, Y, finish, func_named, image, make_space

from metol import _core
from metol.pipeline import PipelineDag, extract

WIDTH, HEIGHT = 256, 64
ROLLOUTS = 2000
LANES = 16


def weighted(weight: Callable[[], hl.Expr]) -> hl.Pipeline:
    output = hl.Func("output")
    output[X, Y] = image(WIDTH, HEIGHT, pixel=hl.Float(32))[X, Y] * weight()
    return finish(output, sizes=(WIDTH, HEIGHT))


def of_row() -> hl.Expr:
    return hl.exp(hl.f32(Y) * hl.f32(-0.01))


def of_pixel() -> hl.Expr:
    return hl.exp(hl.f32(X + Y) * hl.f32(-0.01))


def leaf_with(
    space: _core.Space, func: int, tile: list[int], *, turns: int = 1, at_root: int | None = None
) -> _core.States:
    """A loop nest whose output has vectors of 16 lanes along rows, such tiles, and so many turns along x around."""
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for number in range(ROLLOUTS):
        leaf = leaves.take([number])
        schedules = leaf.describe()
        nest = schedules[func].stages[-1]
        is_such = (nest.vector_loop, nest.vector_width, list(nest.levels[-1][:2])) == (0, LANES, tile)
        other = schedules[func if at_root is None else at_root]
        is_at_root = (other.placement, other.innermost_dim) == (_core.Placement.ROOT, 0)
        if is_such and nest.levels[-2][0] >= turns and is_at_root:
            return leaf
    raise AssertionError(f"no such loop nest among {ROLLOUTS}")


def features_of(dag: PipelineDag, space: _core.Space, state: _core.States, name: str) -> dict[str, float]:
    row = space.featurize(state)[0][dag.funcs[func_named(dag, name)].stages[-1]]
    return dict(zip(space.feature_table(), map(float, row), strict=True))


def vectors_of(weight: Callable[[], hl.Expr], tile: list[int]) -> float:
    """The share of the arithmetic of all vectors, in such loops over the whole image, that is done."""
    dag = extract(weighted(weight))
    space = make_space(dag, target=WIDE_TARGET)
    leaf = leaf_with(space, func_named(dag, "output"), tile, turns=4)
    return features_of(dag, space, leaf, "output")["num_vectors"] * LANES / (WIDTH * HEIGHT)


@pytest.mark.parametrize("tile", [[16, 1], [64, 1], [16, 4]])
def test_what_a_row_has_in_common_is_computed_once_for_its_vectors(tile: list[int]) -> None:
    assert vectors_of(of_pixel, tile) == pytest.approx(1)
    # The multiplication by the weight is left, and of the weight at the most what one of four vectors computes.
    assert 0.01 < vectors_of(of_row, tile) < 0.3


def places(*, columns: int) -> hl.Pipeline:
    """Rows and columns by places that are computed from row to row, or from lane to lane."""
    output = hl.Func("output")
    output[X, Y] = image(columns, HEIGHT * 4, pixel=hl.Float(32))[X % columns, (Y + 1) // 2 + (Y + 1) % 3] + 1
    return finish(output, sizes=(WIDTH, HEIGHT))


def test_places_of_rows_are_known_before_their_vectors() -> None:
    dag = extract(places(columns=WIDTH))
    space = make_space(dag, target=WIDE_TARGET)
    func = func_named(dag, "output")
    leaf = leaf_with(space, func, [64, 1])
    assert features_of(dag, space, leaf, "output")["num_vectors"] < 0.9 * WIDTH * HEIGHT / LANES


def triple(*, is_inlined: bool) -> hl.Pipeline:
    """Sums over two columns of all three values of a Tuple, and of one of them once more."""
    values, output = hl.Func("values"), hl.Func("output")
    source = image(WIDTH + 1, HEIGHT, pixel=hl.Float(32))
    values[X, Y] = (
        (source[X, Y] * 2, source[X, Y] * 3, source[X, Y] * 5)
        if is_inlined
        else tuple(image(WIDTH + 1, HEIGHT, pixel=hl.Float(32), name=f"part_{i}")[X, Y] for i in range(3))
    )
    output[X, Y] = sum((values[X + i, Y][k] for i in range(2) for k in range(3)), start=hl.f32(0))
    return finish(output, sizes=(WIDTH, HEIGHT))


def pinned(build: Callable[[], hl.Pipeline], name: str, *, is_inlined: bool) -> tuple[PipelineDag, _core.Space]:
    dag = extract(build())
    options = _core.SpaceOptions()
    options.pin(func_named(dag, name), is_inlined)
    return dag, make_space(dag, target=WIDE_TARGET, options=options)


def test_each_value_of_a_tuple_is_loaded_by_itself() -> None:
    dag, space = pinned(lambda: triple(is_inlined=False), "values", is_inlined=False)
    leaf = leaf_with(space, func_named(dag, "output"), [16, 1], at_root=func_named(dag, "values"))
    loads = features_of(dag, space, leaf, "output")["vector_loads_per_vector"]
    # Six loads of one register each, of which those of one column straddle two cache lines.
    assert 6 <= loads <= 6 * 2


def test_an_inlined_tuple_is_evaluated_once_for_all_of_its_values() -> None:
    dag, space = pinned(lambda: triple(is_inlined=True), "values", is_inlined=True)
    leaf = leaf_with(space, func_named(dag, "output"), [16, 1])
    assert features_of(dag, space, leaf, "values")["inlined_calls"] == pytest.approx(2 * WIDTH * HEIGHT)


def test_all_values_of_a_tuple_that_an_inlined_one_reads_are_loaded() -> None:
    def build() -> hl.Pipeline:
        """Between two cells of a coarse table of Tuples, at a place that is loaded: eight values by lane."""
        k = hl.Var("k")
        table, between, output = hl.Func("table"), hl.Func("between"), hl.Func("output")
        coarse = [image(64, 64, pixel=hl.Float(32), name=f"coarse_{i}") for i in range(4)]
        which = image(WIDTH, HEIGHT, pixel=hl.Int(32), name="which")
        table[X, k] = tuple(one[X, k] * 2 for one in coarse)
        between[X, k] = tuple(table[X // 32, k][i] + table[X // 32 + 1, k][i] for i in range(4))
        cell = hl.clamp(which[X, Y], 0, 62)
        output[X, Y] = sum((between[X, cell][i] for i in range(4)), start=hl.f32(0))
        return finish(output, sizes=(WIDTH, HEIGHT))

    dag = extract(build())
    options = _core.SpaceOptions()
    options.pin(func_named(dag, "between"), True)
    options.pin(func_named(dag, "table"), False)
    space = make_space(dag, target=WIDE_TARGET, options=options)
    leaf = leaf_with(space, func_named(dag, "output"), [16, 1])
    features = features_of(dag, space, leaf, "output")
    loads = features["scalar_loads_per_vector"] * features["num_vectors"] * LANES / (WIDTH * HEIGHT)
    assert loads == pytest.approx(2 * 4 * LANES, rel=0.01)


def test_nothing_is_computed_before_a_loop_inside_of_which_it_moves() -> None:
    """Lanes along rows that one vector may cover, or two: Halide has a loop over them, inside of that over columns."""
    x, k, c = hl.Var("x"), hl.RDom([(0, 8)], "k"), hl.Var("c")
    sums = hl.Func("sums")
    sums[x, c] = hl.f32(0)
    sums[x, c] += image(8, 5000, pixel=hl.Float(32))[k.x, c] * hl.cos(hl.f32((2 * k.x + 1) * x) * hl.f32(0.196))
    dag = extract(finish(sums, sizes=(LANES, 5000)))
    space = make_space(dag, target=WIDE_TARGET)
    output, update = func_named(dag, "sums"), dag.funcs[func_named(dag, "sums")].stages[1]
    loops = [loop.name for loop in dag.stages[update].loops]
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    seen = 0
    for number in range(ROLLOUTS):
        leaf = leaves.take([number])
        nest = leaf.describe()[output].stages[1]
        if (nest.vector_loop, nest.vector_width) == (loops.index("x"), LANES):
            row = dict(zip(space.feature_table(), map(float, space.featurize(leaf)[0][update]), strict=True))
            columns = nest.levels[-1][loops.index("c")]  # of the tile, which have the cosines in common
            assert row["num_vectors"] > 0.9 * 8 * 5000 / columns
            seen += 1
    assert seen > 10


def warp() -> hl.Pipeline:
    """Columns by rounded floats, and rows by integers."""
    output = hl.Func("output")
    column = hl.i32(hl.floor(hl.f32(X) * hl.f32(0.6)))
    output[X, Y] = image(WIDTH, HEIGHT, pixel=hl.Float(32))[column, Y // 2] + 1
    return finish(output, sizes=(WIDTH, HEIGHT))


def test_lanes_at_rounded_places_are_loaded_one_by_one() -> None:
    dag = extract(warp())
    space = make_space(dag, target=WIDE_TARGET)
    leaf = leaf_with(space, func_named(dag, "output"), [16, 1])
    features = features_of(dag, space, leaf, "output")
    loads = features["scalar_loads_per_vector"] * features["num_vectors"] * LANES / (WIDTH * HEIGHT)
    assert loads == pytest.approx(LANES)


def test_windows_do_not_slide_by_rounded_floats() -> None:
    def slides(row: hl.Expr) -> bool:
        first, second = hl.Func("first"), hl.Func("second")
        first[X, Y] = image(WIDTH, HEIGHT, pixel=hl.Float(32))[X, Y] * 2
        second[X, Y] = first[X, row] + first[X, row + 1]
        dag = extract(finish(second, sizes=(WIDTH, HEIGHT - 2)))
        space = make_space(dag, target=WIDE_TARGET)
        leaves = space.rollout(space.root(), range(ROLLOUTS))
        schedules = (leaves.take([number]).describe()[func_named(dag, "first")] for number in range(ROLLOUTS))
        return any(schedule.slide_dim == 1 for schedule in schedules)

    assert slides(Y)
    assert slides(Y // 2)
    assert not slides(hl.i32(hl.floor(hl.f32(Y) * hl.f32(0.5))))
