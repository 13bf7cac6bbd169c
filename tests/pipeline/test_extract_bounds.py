"""Regions against numbers worked out by hand, and against Halide's own bounds inference."""

from collections.abc import Callable

import halide as hl
import numpy as np
import pytest
from random_algorithms import build
from sample_algorithms import C, X, Y, blur, boundary, histogram, image, matmul, single

from metol import _core
from metol.errors import ExtractionError
from metol.pipeline import extract, func_names


def func_of(dag: _core.PipelineDag, name: str) -> _core.Func:
    return next(func for func in dag.funcs if func.name.split("$")[0] == name)


def region(func: _core.Func) -> list[tuple[int, int]]:
    return [(interval.min, interval.max) for interval in func.root_region]


def read_region(value: hl.Expr, producer: str, loops: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What `output(x, y) = value` reads of `producer` over a block of its loops."""
    dag = extract(single(value))
    edges = dag.stages[dag.funcs[dag.outputs[0]].stages[0]].edges
    edge = next(edge for edge in edges if dag.funcs[edge.producer].name.split("$")[0] == producer)
    return [(interval.min, interval.max) for interval in (bound.evaluate(loops) for bound in edge.bounds)]


def test_func_ids_are_positions_in_get_func() -> None:
    for pipeline in (blur(), matmul(), histogram(), boundary("mirror_image")):
        dag = extract(pipeline)
        names = [pipeline.get_func(i).name() for i in range(dag.real_func_count)]
        assert [func.name for func in dag.funcs] == names == list(func_names(pipeline))


def test_loops_are_in_the_default_order_of_halide() -> None:
    dag = extract(matmul())
    pure, update = (dag.stages[s] for s in dag.funcs[dag.outputs[0]].stages)
    assert [loop.name for loop in pure.loops] == ["x", "y"]
    assert [loop.name for loop in update.loops] == ["k$x", "x", "y"]
    assert [loop.pure_dim for loop in update.loops] == [-1, 0, 1]


def test_stencil_regions_at_root() -> None:
    dag = extract(blur())
    assert region(func_of(dag, "blur_y")) == [(0, 63), (0, 47)]
    assert region(func_of(dag, "blur_x")) == [(0, 63), (0, 49)]
    assert region(func_of(dag, "source_im")) == [(0, 65), (0, 49)]


def test_stencil_bounds_are_affine() -> None:
    dag = extract(blur())
    bounds = dag.stages[func_of(dag, "blur_x").stages[0]].edges[0].bounds
    assert all(end.is_affine for bound in bounds for end in (bound.min, bound.max))
    assert bounds[0].max.constant == 2
    assert bounds[0].max.terms == [(0, True, 1)]


@pytest.mark.parametrize(
    ("coordinate", "expected"),
    [
        (2 * X - 1, (7, 17)),
        (X // 2, (2, 4)),
        (20 - X, (11, 16)),
        (hl.clamp(X, 6, 7), (6, 7)),
        (hl.clamp(X - 5, 0, 15), (0, 4)),
        (hl.select(X > 6, X + 1, X - 1), (3, 10)),
        (hl.abs(X - 6), (0, 3)),
        (X >> 1, (2, 4)),
        (hl.i32(hl.ceil(X * 0.5 + 0.25)), (3, 5)),
    ],
)
def test_block_bounds_of_a_coordinate(coordinate: hl.Expr, expected: tuple[int, int]) -> None:
    source = hl.Func("source")
    source[X] = X
    assert read_region(source[hl.i32(coordinate)], "source", [(4, 9), (0, 0)]) == [expected]


def test_negative_coordinates_divide_towards_minus_infinity() -> None:
    source = hl.Func("source")
    source[X] = X
    assert read_region(source[X // 2], "source", [(-3, -1), (0, 0)]) == [(-2, -1)]


def test_reads_in_several_places_are_united() -> None:
    source = hl.Func("source")
    source[X] = X
    assert read_region(source[X - 2] + source[X + 5], "source", [(10, 12), (0, 0)]) == [(8, 17)]


def test_an_empty_region_counts_as_a_point() -> None:
    source, r = hl.Func("source"), hl.RDom([(0, 8)], "r")
    source[X] = X
    r.where(r.x > 4)
    dag = extract(single(hl.sum(source[r.x])))
    edge = next(edge for stage in dag.stages for edge in stage.edges if dag.funcs[edge.producer].name == source.name())
    assert edge.bounds[0].evaluate([(0, 7), (0, 0), (0, 0)]) == _core.Interval(5, 7)
    assert edge.bounds[0].evaluate([(0, 1), (0, 0), (0, 0)]).extent == 1


def test_a_boundary_condition_stays_inside_the_input() -> None:
    for kind in ("repeat_edge", "constant_exterior", "mirror_image", "mirror_interior", "repeat_image"):
        dag = extract(boundary(kind))
        x, y = region(func_of(dag, "source_im"))
        assert 0 <= x[0] <= x[1] <= 39
        assert 0 <= y[0] <= y[1] <= 29


def test_the_type_bounds_a_data_dependent_read() -> None:
    dag = extract(histogram())
    assert region(func_of(dag, "sums")) == [(0, 255)]
    output = dag.stages[dag.funcs[dag.outputs[0]].stages[0]]
    assert output.has_data_dependent_read


def test_values_of_a_producer_bound_a_read() -> None:
    index, table = hl.Func("index"), hl.Func("table")
    index[X] = hl.clamp(X * 3, 2, 11)
    table[X] = X
    assert read_region(table[index[X]], "table", [(0, 15), (0, 11)]) == [(2, 11)]


def test_an_unbounded_read_names_func_access_and_dimension() -> None:
    source = image("source", (16, 12), hl.Int(32))
    access = r"Func `output` reads `source\(x, source\(x, y\)\)` in dimension 1 .*clamp"
    with pytest.raises(ExtractionError, match=access):
        extract(single(source[X, source[X, Y]]))


MASKED = {
    "a power of two": (lambda value: value & 1023, (0, 1023)),
    "the mask first": (lambda value: hl.i32(1023) & value, (0, 1023)),
    "some bits": (lambda value: value & 0x55, (0, 0x55)),
    "without a sign": (lambda value: hl.i32((hl.u32(value) * hl.u32(2654435761)) & hl.u32(255)), (0, 255)),
    "no more than it has": (lambda value: hl.clamp(value, 0, 9) & 15, (0, 9)),
}


@pytest.mark.parametrize(("masked", "wanted"), MASKED.values(), ids=MASKED.keys())
def test_what_is_masked_is_no_greater_than_the_mask(
    masked: Callable[[hl.Expr], hl.Expr], wanted: tuple[int, int]
) -> None:
    source, table = image("source", (16, 12), hl.Int(32)), image("table", (1024,))
    assert read_region(table[masked(source[X, Y])], "table_im", [(0, 15), (0, 11)]) == [wanted]


def test_a_mask_with_a_sign_bounds_nothing() -> None:
    source = image("source", (16, 12), hl.Int(32))
    with pytest.raises(ExtractionError, match="unbounded"):
        extract(single(source[X, source[X, Y] & -2]))


def test_an_image_read_directly_follows_the_funcs() -> None:
    pixels = np.zeros((8, 6), np.uint8)
    table = hl.Buffer(pixels, "table")
    dag = extract(single(hl.i32(table[X, Y]), (6, 8)))
    assert dag.real_func_count == 1
    assert dag.funcs[1].is_input
    assert region(dag.funcs[1]) == [(0, 5), (0, 7)]
    assert [interval.extent for interval in dag.funcs[1].estimate] == [6, 8]


def test_a_scan_computes_what_its_updates_read_and_write() -> None:
    scan, output = hl.Func("scan"), hl.Func("output")
    r = hl.RDom([(1, 9)], "r")
    scan[X] = X
    scan[r.x] += scan[r.x - 1]
    output[X] = scan[X]
    output.set_estimates([(5, 20)])
    dag = extract(output)
    func = func_of(dag, "scan")
    assert region(func) == [(5, 24)]
    assert func.computed[0].evaluate([(5, 24)]) == _core.Interval(0, 24)
    assert func.computed[0].evaluate([(5, 6)]) == _core.Interval(0, 9)
    pure, update = (dag.stages[s] for s in func.stages)
    assert pure.loops[0].bounds.evaluate([(5, 6)]) == _core.Interval(0, 9)
    assert update.loops[0].bounds.evaluate([(5, 6)]) == _core.Interval(1, 9)


def test_a_parameter_is_replaced_by_its_estimate() -> None:
    offset = hl.Param(hl.Int(32), "offset")
    source = hl.Func("source")
    source[X] = X
    dag = extract(single(source[X + offset]), {"offset": 7})
    assert region(func_of(dag, "source")) == [(7, 22)]


def test_two_outputs_unite_what_they_require() -> None:
    shared, a, b = hl.Func("shared"), hl.Func("a"), hl.Func("b")
    shared[X] = X
    a[X] = shared[X - 4]
    b[X] = shared[X] + a[X]
    a.set_estimates([(0, 10)])
    b.set_estimates([(0, 8)])
    dag = extract(hl.Pipeline([a, b]))
    assert [dag.funcs[f].name for f in dag.outputs] == [a.name(), b.name()]
    assert region(func_of(dag, "shared")) == [(-4, 7)]


def test_shared_index_expressions_do_not_explode() -> None:
    source = hl.Func("source")
    source[X] = X
    index = X
    for _ in range(60):
        index = hl.min(index + 1, index * 2)
    assert read_region(source[hl.clamp(index, 0, 50)], "source", [(0, 15), (0, 0)]) == [(0, 50)]


def test_a_long_chain_stays_linear() -> None:
    stage = image("source", (1000, 64), hl.Int(32))
    for _ in range(120):
        following = hl.Func("link")
        following[X, Y] = stage[X, Y] + stage[X + 1, Y] * stage[X, Y]
        stage = following
    stage.set_estimates([(0, 20), (0, 20)])
    dag = extract(stage)
    assert region(dag.funcs[0]) == [(0, 139), (0, 19)]


def test_a_pyramid_of_down_and_upsampling() -> None:
    fine, coarse, up = hl.Func("fine"), hl.Func("coarse"), hl.Func("up")
    fine[X, Y] = X + Y
    coarse[X, Y] = fine[2 * X - 1, 2 * Y] + fine[2 * X + 2, 2 * Y + 1]
    up[X, Y] = coarse[X // 2 - 1 + 2 * (X % 2), Y // 2]
    up.set_estimates([(0, 64), (0, 48)])
    dag = extract(up)
    assert region(func_of(dag, "coarse")) == [(-1, 32), (0, 23)]
    assert region(func_of(dag, "fine")) == [(-3, 66), (0, 47)]


def test_a_tuple_has_one_width_an_element() -> None:
    pair, output = hl.Func("pair"), hl.Func("output")
    pair[X, C] = (hl.u8(X), hl.f32(C))
    output[X, C] = hl.f32(pair[X, C][0]) + pair[X + 1, C][1]
    output.set_estimates([(0, 8), (0, 3)])
    dag = extract(output)
    assert func_of(dag, "pair").value_bytes == [1, 4]
    assert func_of(dag, "pair").bytes_per_point == 5
    assert region(func_of(dag, "pair")) == [(0, 8), (0, 2)]


@pytest.mark.parametrize("seed", range(12))
def test_random_algorithms_agree_with_halide(seed: int) -> None:
    pipeline, source = build(seed)
    dag = extract(pipeline)
    for i in range(dag.real_func_count):
        if not dag.funcs[i].is_input:
            pipeline.get_func(i).compute_root()
    pipeline.infer_input_bounds([32, 24])
    buffer = source.get()
    wanted = [(buffer.dim(d).min(), buffer.dim(d).max()) for d in range(2)]
    assert region(next(func for func in dag.funcs if func.is_input)) == wanted


def test_reads_of_one_func_in_several_ways_have_bounds_of_their_own_though_they_share_expressions() -> None:
    x, y = hl.Var("x"), hl.Var("y")
    source, output = hl.ImageParam(hl.Int(32), 2, "source"), hl.Func("output")
    skewed = 2 * x + 3 * y
    output[x, y] = source[skewed, y] + source[x, skewed]
    output.set_estimates([(0, 40), (0, 24)])
    source.set_estimates([(0, 200), (0, 200)])
    dag = extract(hl.Pipeline(output))
    stage = dag.stages[next(f for f in dag.funcs if f.is_output).stages[0]]
    (edge,) = stage.edges
    assert sorted([[str(side.max) for side in access.bounds] for access in edge.accesses]) == [
        ["1*max0 + 0", "2*max0 + 3*max1 + 0"],
        ["2*max0 + 3*max1 + 0", "1*max1 + 0"],
    ]
