"""Images whose channels lie side by side, as in most files: neighbours along rows are a pixel apart.

What the compiler does is in the first test; the others hold the model, lowering and the search to it.
"""

import re
from pathlib import Path

import halide as hl
import pytest
from small_pipelines import BARE_TARGET, SOME_TARGET, C, X, Y, finish, image, make_gpu_space, make_space, some_machine

import metol
from metol.lower import Call, Var, cpu_directives
from metol.pipeline import extract

LANES = 32
SIZES = (256, 128, 3)
ROLLOUTS = 300


def interleave(buffer: hl.ImageParam | hl.OutputImageParam, channels: int = 3) -> None:
    buffer.dim(0).set_stride(channels)
    buffer.dim(2).set_stride(1).set_bounds(0, channels)


def brighter(*, is_interleaved: bool, channels: int = 3) -> tuple[hl.Func, hl.ImageParam]:
    source = image(SIZES[0], SIZES[1], channels, pixel=hl.UInt(8))
    output = hl.Func("output")
    output[X, Y, C] = source[X, Y, C] / 2 + 40
    if is_interleaved:
        interleave(source, channels)
        interleave(output.output_buffer(), channels)
    return output, source


@pytest.mark.slow
@pytest.mark.parametrize(("order", "is_whole"), [("xcy", True), ("xyc", False)])
def test_the_compiler_stores_channels_together_that_follow_each_other(
    tmp_path: Path, order: str, is_whole: bool
) -> None:
    output, source = brighter(is_interleaved=True)
    x, y, inner_x, inner_y = (hl.Var(name) for name in ("xo", "yo", "xi", "yi"))
    output.bound(C, 0, 3).tile(X, Y, x, y, inner_x, inner_y, LANES, 2, hl.TailStrategy.RoundUp)
    loops = {"x": inner_x, "y": inner_y, "c": C}
    output.reorder(*(loops[name] for name in order), x, y).vectorize(inner_x).unroll(inner_y).unroll(C)
    path = tmp_path / "code.s"
    output.compile_to_assembly(str(path), [source], "brighter", hl.Target(BARE_TARGET))
    of_a_lane = len(re.findall(r"\tvpextrb\t", path.read_text()))
    assert of_a_lane == 0 if is_whole else of_a_lane >= LANES


def features_of_vectors(*, is_interleaved: bool, channels: int = 3) -> dict[tuple[bool, int], set[tuple[float, float]]]:
    """Scalar and vector loads a vector, of tiles of one row: by whether all channels are there, and lanes."""
    output, _ = brighter(is_interleaved=is_interleaved, channels=channels)
    dag = extract(finish(output, sizes=(*SIZES[:2], channels)))
    space = make_space(dag, target=SOME_TARGET)
    table = list(space.feature_table())
    columns = [table.index(name) for name in ("scalar_loads_per_vector", "vector_loads_per_vector")]
    (func,) = dag.outputs
    found: dict[tuple[bool, int], set[tuple[float, float]]] = {}
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    for number in range(ROLLOUTS):
        leaf = leaves.take([number])
        nest = leaf.describe()[func].stages[0]
        width, rows, inside = nest.levels[-1][:3]
        if nest.vector_loop == 0 and nest.vector_width == width == LANES and rows == 1 and inside in (1, channels):
            row = space.featurize(leaf)[0][dag.funcs[func].stages[0]]
            found.setdefault((inside == channels, width), set()).add(tuple(float(row[c]) for c in columns))
    return found


def test_all_channels_at_once_are_as_many_vectors_as_of_planes() -> None:
    """One of three takes each third byte of three vectors, and stores its lanes one by one."""
    planes, pixels = features_of_vectors(is_interleaved=False), features_of_vectors(is_interleaved=True)
    assert pixels.keys() == planes.keys() == {(True, LANES), (False, LANES)}
    ((scalars, vectors),) = planes[True, LANES]
    assert scalars == 0
    ((whole_scalars, whole_vectors),) = pixels[True, LANES]
    assert (whole_scalars, whole_vectors) == (0, pytest.approx(vectors, rel=0.1))
    ((scattered, thirds),) = pixels[False, LANES]
    assert scattered == LANES
    assert thirds == pytest.approx(3 * whole_vectors)


@pytest.mark.parametrize(
    ("strides", "interleaved", "rows"),
    [
        ({0: 3, 2: 1}, 3, 0),
        ({0: 1}, 1, 0),
        ({0: 1026, 1: 1}, 1, 1),  # columns
        ({0: 3 * 48, 1: 3, 2: 1}, 3, 1),  # as arrays of rows of pixels have their axes
        ({0: 48, 1: 3, 2: 1}, 3, 1),
        ({0: 1, 1: 3}, 3, 1),
        ({0: 1, 1: 2048}, 1, 0),
        ({0: 4, 1: 1024, 2: 1}, 4, 0),
        ({0: 8, 2: 1}, 1, 2),
        ({0: -3, 2: 1}, 1, 2),
        ({0: 3}, 1, 0),  # nothing is dense
    ],
)
def test_pixels_are_told_from_columns(strides: dict[int, int], interleaved: int, rows: int) -> None:
    source, output = image(*SIZES, pixel=hl.UInt(8)), hl.Func("output")
    for dimension, stride in strides.items():
        source.dim(dimension).set_stride(stride)
    output[X, Y, C] = source[X, Y, C]
    dag = extract(finish(output, sizes=SIZES))
    func = next(func for func in dag.funcs if func.is_input)
    assert (func.interleaved, func.row_dim) == (interleaved, rows)


@pytest.mark.parametrize(("rows", "interleaved", "along"), [(4, 1, 0), (7, 1, 0), (8, 4, 1)])
def test_small_matrices_are_no_pixels(rows: int, interleaved: int, along: int) -> None:
    source, output = image(4, rows, 100, pixel=hl.Float(32)), hl.Func("output")
    source.dim(1).set_stride(4)
    output[X, Y, C] = source[X, Y, C]
    output.output_buffer().dim(1).set_stride(4)
    dag = extract(finish(output, sizes=(4, rows, 100)))
    assert [(func.interleaved, func.row_dim) for func in dag.funcs if func.is_input or func.is_output] == [
        (interleaved, along)
    ] * 2


def arranged(strides: tuple[int, ...], sizes: tuple[int, ...]) -> hl.Pipeline:
    """Half of everything, from memory that is arranged so into memory like it."""
    source, output = image(*sizes), hl.Func("output")
    place = (X, Y, C)[: len(sizes)]
    output[place] = source[place] / 2
    for buffer in (source, output.output_buffer()):
        for dimension, stride in enumerate(strides):
            buffer.dim(dimension).set_stride(stride)
    return finish(output, sizes=sizes)


ARRANGEMENTS = pytest.mark.parametrize(
    ("strides", "sizes", "dim"),
    [
        ((1, 256), (256, 128), 0),
        ((128, 1), (256, 128), 1),
        ((3 * 128, 3, 1), (256, 128, 3), 1),
        ((32, 32 * 256, 1), (256, 128, 32), 2),  # pixels of many channels are dense along these
    ],
)


@ARRANGEMENTS
def test_vectors_lie_along_rows(strides: tuple[int, ...], sizes: tuple[int, ...], dim: int) -> None:
    dag = extract(arranged(strides, sizes))
    space = make_space(dag, target=SOME_TARGET)
    (func,) = dag.outputs
    table = list(space.feature_table())
    column = table.index("scalar_loads_per_vector")
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    gathered = set()
    for number in range(ROLLOUTS):
        leaf = leaves.take([number])
        nest = leaf.describe()[func].stages[0]
        if nest.vector_width > 1:
            assert nest.vector_loop == dim
            row = space.featurize(leaf)[0][dag.funcs[func].stages[0]]
            gathered.add(float(row[column]))
    assert 0 in gathered


def described(order: str) -> hl.Pipeline:
    """The difference of two rows of pixels, whose coordinates come in an order."""
    source, output = image(*({"x": 256, "y": 128, "c": 3}[name] for name in order), pixel=hl.UInt(8)), hl.Func("output")
    names = {"x": X, "y": Y, "c": C}

    def at(down: int) -> list[hl.Expr]:
        return [names[name] + down if name == "y" else names[name] for name in order]

    output[tuple(names[name] for name in order)] = source[at(0)] - source[at(1)]
    for buffer in (source, output.output_buffer()):
        for dimension, name in enumerate(order):
            buffer.dim(dimension).set_stride({"x": 3, "y": 3 * 256, "c": 1}[name])
    return finish(output, sizes=[{"x": 256, "y": 127, "c": 3}[name] for name in order])


def test_features_do_not_hang_on_the_order_of_coordinates() -> None:
    """Where a tile is the same, whatever order the loops around it have."""
    seen: dict[str, dict[tuple[int, ...], tuple[float, ...]]] = {}
    for order in ("xyc", "yxc", "cxy"):
        dag = extract(described(order))
        space = make_space(dag, target=SOME_TARGET)
        (func,) = dag.outputs
        table = list(space.feature_table())
        columns = [table.index(f"{kind}_per_vector") for kind in ("vector_loads", "scalar_loads", "unique_lines_read")]
        leaves = space.rollout(space.root(), range(4 * ROLLOUTS))
        seen[order] = {}
        for number in range(4 * ROLLOUTS):
            leaf = leaves.take([number])
            nest = leaf.describe()[func].stages[0]
            if nest.vector_loop == order.index("x"):
                tile = nest.levels[-1]
                key = (nest.vector_width, *(tile[order.index(name)] for name in "xyc"))
                row = space.featurize(leaf)[0][dag.funcs[func].stages[0]]
                seen[order][key] = tuple(float(row[column]) for column in columns)
    shared = seen["xyc"].keys() & seen["yxc"].keys() & seen["cxy"].keys()
    assert len(shared) >= 5
    for key in shared:
        assert seen["yxc"][key] == pytest.approx(seen["xyc"][key])
        assert seen["cxy"][key] == pytest.approx(seen["xyc"][key])


@ARRANGEMENTS
def test_threads_lie_along_rows(strides: tuple[int, ...], sizes: tuple[int, ...], dim: int) -> None:
    """Until the tile is decided about."""
    dag = extract(arranged(strides, sizes))
    space = make_gpu_space(dag)
    (func,) = dag.outputs
    placed = space.expand(space.root())[0].take([0]).describe()[func]
    assert placed.innermost_dim == placed.stages[0].vector_loop == dim


def test_no_vector_lies_along_pixels_of_many_channels() -> None:
    assert features_of_vectors(is_interleaved=False, channels=8) != {}
    assert features_of_vectors(is_interleaved=True, channels=8) == {}


def test_the_channels_of_a_pixel_are_innermost_in_a_tile() -> None:
    output, _ = brighter(is_interleaved=True)
    dag = extract(finish(output, sizes=SIZES))
    space = make_space(dag, target=SOME_TARGET)
    (func,) = dag.outputs
    leaves = space.rollout(space.root(), range(ROLLOUTS))
    seen = 0
    for number in range(ROLLOUTS):
        schedules = leaves.take([number]).describe()
        nest = schedules[func].stages[0]
        if nest.vector_loop != 0 or nest.vector_width == 1 or min(nest.levels[-1][1:3]) == 1:
            continue
        seen += 1
        directives = cpu_directives(dag, schedules)
        first = next(d for d in directives if d.call is Call.REORDER)
        unrolled = {d.args[0] for d in directives if d.call is Call.UNROLL and d.branch == first.branch}
        inner = [loop for loop in first.args if loop in unrolled]
        assert isinstance(inner[0], Var)
        assert inner[0].name.startswith(C.name())
    assert seen >= 5


@pytest.mark.slow
def test_the_search_takes_all_channels_at_once_and_is_right() -> None:
    output, _ = brighter(is_interleaved=True)
    pipeline = finish(output, sizes=SIZES)
    result = metol.autoschedule(pipeline, machine=some_machine(), verify=True)
    assert result.fallbacks == ()
    assert result.is_compared
    tiled = [d for d in result.schedule.directives if d.call is Call.SPLIT and d.args[0] in (Var("c"), Var("c_all"))]
    assert {d.args[3] for d in tiled} == {3}
