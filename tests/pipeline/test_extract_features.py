"""Jacobians, op histograms and flags of Stages."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import halide as hl
import pytest
from sample_algorithms import X, Y, blur, boundary, histogram, image, matmul, single

from metol import _core
from metol.pipeline import extract, op_classes


def output_stage(pipeline: hl.Pipeline, index: int = 0) -> _core.Stage:
    dag = extract(pipeline)
    return dag.stages[dag.funcs[dag.outputs[0]].stages[index]]


def operations(stage: _core.Stage) -> dict[str, float]:
    return {row.name: count for row, count in zip(op_classes(), stage.op_histogram, strict=True) if count}


def row(coordinate: hl.Expr) -> list[Fraction | None]:
    """The derivative of a coordinate with x and y, None where unknown."""
    source = hl.Func("source")
    source[X] = X
    edge = output_stage(single(source[hl.i32(coordinate)])).edges[0]
    jacobian = edge.accesses[0].jacobian[0]
    known = zip(jacobian.numerator, jacobian.denominator, jacobian.is_known, strict=True)
    return [Fraction(n, d) if is_known else None for n, d, is_known in known]


@pytest.mark.parametrize(
    ("coordinate", "expected"),
    [
        (X + 3, [1, 0]),
        (2 * X - Y, [2, -1]),
        (X // 2 + 1, [Fraction(1, 2), 0]),
        ((3 * X + Y) // 4, [Fraction(3, 4), Fraction(1, 4)]),
        (hl.clamp(X - 1, 0, 100), [1, 0]),
        (hl.min(X + Y, 2 * X), [None, 1]),
        (X << 2, [4, 0]),
        (hl.i32(hl.clamp(X * Y, 0, 9)), [None, None]),
        (X // 2 - 1 + 2 * (X % 2), [Fraction(1, 2), 0]),
        (X >> 1, [Fraction(1, 2), 0]),
        (X % 100, [None, 0]),
        (hl.i32(hl.floor(hl.f32(X) * hl.f32(0.4))), [Fraction(2, 5), 0]),
        (hl.select(Y > 3, X + 1, X - 1), [1, 0]),
        (hl.Expr(7), [0, 0]),
    ],
)
def test_jacobian_of_a_coordinate(coordinate: hl.Expr, expected: list[Fraction | None]) -> None:
    assert row(coordinate) == expected


@pytest.mark.parametrize("kind", ["repeat_edge", "mirror_image", "mirror_interior", "repeat_image"])
def test_the_steady_state_of_a_boundary_condition_is_looked_through(kind: str) -> None:
    dag = extract(boundary(kind))
    func = next(func for func in dag.funcs if func.name.startswith(kind))
    assert func.is_boundary_condition
    jacobian = dag.stages[func.stages[0]].edges[0].accesses[0].jacobian
    assert [r.numerator for r in jacobian] == [[1, 0], [0, 1]]


def test_taps_of_a_stencil_are_one_access() -> None:
    source = image("source", (20, 16))
    taps = sum((source[X + i, Y + j] for i in range(5) for j in range(3)), start=hl.cast(hl.UInt(16), 0))
    edge = output_stage(single(taps)).edges[0]
    assert edge.calls == 15
    assert len(edge.accesses) == 1
    access = edge.accesses[0]
    assert (access.count, access.offset_span, access.distinct_offsets) == (15, [4, 2], [5, 3])
    assert access.offsets == [[i, j] for i in range(5) for j in range(3)]


@pytest.mark.parametrize("second", [X % 4, (X + 1) // 2])
def test_offsets_that_are_no_known_whole_numbers_are_not_told(second: hl.Expr) -> None:
    source = hl.Func("source")
    source[X, Y] = X + Y
    edge = output_stage(single(source[X, Y] + source[second, Y])).edges[0]
    assert [access.offsets for access in edge.accesses if access.offsets] in ([[[0, 0]]], [])


def test_reads_with_different_jacobians_are_apart() -> None:
    source = hl.Func("source")
    source[X, Y] = X + Y
    edge = output_stage(single(source[X, Y] + source[2 * X, Y] + source[Y, X])).edges[0]
    assert [access.count for access in edge.accesses] == [1, 1, 1]


def test_equal_loads_count_once_but_calls_count_all() -> None:
    source = hl.Func("source")
    source[X, Y] = X + Y
    edge = output_stage(single(source[X, Y] * source[X, Y] + source[X, Y])).edges[0]
    assert edge.calls == 3
    assert edge.accesses[0].count == 1


def test_a_load_at_a_loaded_coordinate_is_unknown_only_in_the_loops_of_that() -> None:
    table, index = hl.Func("table"), hl.Func("index")
    index[X] = hl.u8(X)
    table[X, Y] = X + Y
    stage = output_stage(single(table[hl.i32(index[X]), Y]))
    access = next(edge for edge in stage.edges if len(edge.bounds) == 2).accesses[0]
    assert access.jacobian[0].is_known == [False, True]
    assert access.jacobian[1].is_known == [True, True]


def test_classes_differ_and_have_meanings() -> None:
    classes = op_classes()
    assert len(classes) == len({row.name for row in classes}) == 41
    assert all(row.meaning for row in classes)


def test_histogram_of_a_stencil() -> None:
    assert operations(output_stage(blur())) == {
        "Constant": 1,
        "AddInt": 2,
        "FixedPoint": 1,
        "LoadStencil": 3,
        "Store": 1,
    }


def test_histogram_of_a_matrix_product() -> None:
    update = output_stage(matmul(), 1)
    assert operations(update) == {
        "AddFloat": 1,
        "MulAddFloat": 1,
        "LoadBroadcast": 1,
        "LoadTranspose": 1,
        "LoadSelf": 1,
        "Store": 1,
    }


def test_shared_subexpressions_count_once() -> None:
    root = hl.sqrt(hl.f32(X))
    assert operations(output_stage(single(root * root + root)))["Sqrt"] == 1


def test_shared_subexpressions_do_not_explode() -> None:
    value = hl.f32(X)
    for _ in range(80):
        value = value * value + value
    assert operations(output_stage(single(value)))["MulAddFloat"] == 80


FLOAT_X, FLOAT_Y = hl.f32(X), hl.f32(Y)


@pytest.mark.parametrize(
    ("value", "alone", "fused"),
    [
        (FLOAT_X * FLOAT_Y, 1, 0),
        (FLOAT_X * FLOAT_Y + 1.5, 0, 1),
        (1.5 - FLOAT_X * FLOAT_Y, 0, 1),
        # An addition takes one product.
        (FLOAT_X * FLOAT_X + FLOAT_Y * FLOAT_Y, 1, 1),
        # A product that is used twice is computed by itself.
        ((FLOAT_X * FLOAT_Y + 1.5) * hl.sqrt(FLOAT_X * FLOAT_Y), 2, 0),
        ((FLOAT_X + FLOAT_Y) * 1.5, 1, 0),
        (FLOAT_X / 12.0 + FLOAT_Y, 0, 1),
        (X * Y + 1, 0, 0),
    ],
)
def test_additions_take_products_along(value: hl.Expr, alone: int, fused: int) -> None:
    found = operations(output_stage(single(value)))
    assert (found.get("MulFloat", 0), found.get("MulAddFloat", 0)) == (alone, fused)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (hl.exp(FLOAT_X), "Transcendental"),
        (hl.sin(FLOAT_X), "ExternCall"),
        (hl.tanh(FLOAT_X), "ExternCall"),
    ],
)
def test_classes_go_by_the_code_that_halide_makes(value: hl.Expr, name: str) -> None:
    assert operations(output_stage(single(value)))[name] == 1


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (hl.f32(X) / hl.f32(Y), "DivFloat"),
        (hl.f32(X) / 3.0, "MulFloat"),
        (X // 3, "DivConst"),
        (hl.u16(X) // hl.u16(3), "FixedPoint"),
        (X // 4, "Shift"),
        (X % 8, "Bitwise"),
        (X // (Y + 1), "DivInt"),
        (hl.exp(hl.f32(X)), "Transcendental"),
        (hl.u8(X) * hl.u8(3), "MulNarrow"),
        (X * Y, "MulInt"),
        (hl.select(X > 1, 1.0, 2.0), "SelectFloat"),
        (hl.max(X, Y), "MinMaxInt"),
        (hl.absd(X, Y), "FixedPoint"),
        (hl.abs(X), "Round"),
        (hl.u32(X) >> hl.u32(2), "Shift"),
        (X & Y, "Bitwise"),
        (hl.f64(hl.f32(X)), "CastFloat"),
    ],
)
def test_class_of_an_operation(value: hl.Expr, name: str) -> None:
    assert operations(output_stage(single(value)))[name] >= 1


@pytest.mark.parametrize(
    ("coordinates", "name"),
    [
        ((X, Y), "LoadPointwise"),
        ((Y, X), "LoadTranspose"),
        ((2 * X, Y), "LoadStrided"),
        ((X, 0), "LoadBroadcast"),
        ((X % 100, Y), "LoadGather"),
    ],
)
def test_class_of_a_load(coordinates: tuple[hl.Expr, hl.Expr], name: str) -> None:
    source = hl.Func("source")
    source[X, Y] = X + Y
    assert operations(output_stage(single(source[coordinates])))[name] == 1


def test_widths_ignore_addresses_and_literals() -> None:
    stage = output_stage(blur())
    assert (stage.narrowest_bytes, stage.widest_bytes) == (2, 2)


def test_scatter_is_data_dependent_and_serial() -> None:
    dag = extract(histogram())
    counts = next(func for func in dag.funcs if func.name.startswith("counts"))
    update = dag.stages[counts.stages[1]]
    assert update.has_data_dependent_write
    assert update.is_associative
    assert [loop.is_parallelizable for loop in update.loops] == [False, False]
    assert operations(update)["Scatter"] == 1


@pytest.mark.parametrize("picks", [False, True])
def test_what_picks_the_last_of_equals_comes_in_its_own_order(picks: bool) -> None:
    values, best, k = hl.Func("values"), hl.Func("best"), hl.RDom([(0, 64)], "k")
    values[X] = X % 8
    best[Y] = (hl.i32(0), hl.i32(0))
    place = hl.select(best[Y][0] > values[k.x], best[Y][1], k.x) if picks else hl.max(best[Y][1], k.x)
    best[Y] = (hl.max(best[Y][0], values[k.x]), place)
    best.set_estimates([(0, 16)])
    update = output_stage(hl.Pipeline(best), 1)
    assert update.is_associative
    assert update.is_commutative != picks


def test_a_scan_is_not_associative() -> None:
    dag = extract(histogram())
    sums = next(func for func in dag.funcs if func.name.startswith("sums"))
    assert not dag.stages[sums.stages[1]].is_associative


def test_an_rvar_that_halide_can_parallelize() -> None:
    func, r = hl.Func("func"), hl.RDom([(0, 8)], "r")
    func[X] = 0
    func[r.x] = r.x * 2
    func.set_estimates([(0, 8)])
    loop = extract(func).stages[1].loops[0]
    assert loop.is_parallelizable
    assert loop.has_constant_extent


def test_extent_of_an_input_is_no_constant() -> None:
    dag = extract(histogram())
    counts = next(func for func in dag.funcs if func.name.startswith("counts"))
    assert not any(loop.has_constant_extent for loop in dag.stages[counts.stages[1]].loops)


def test_identity_and_undef_are_told() -> None:
    source = hl.Func("source")
    source[X, Y] = X + Y
    assert output_stage(single(source[X, Y])).is_identity
    assert not output_stage(single(source[X, Y] + 1)).is_identity
    func = hl.Func("func")
    func[X] = hl.undef(hl.Int(32))
    func[X] = X
    func.set_estimates([(0, 8)])
    assert [stage.is_undef for stage in extract(func).stages] == [True, False]


def test_predicates_are_told() -> None:
    r = hl.RDom([(0, 4), (0, 4)], "r")
    r.where(r.x < r.y)
    dag = extract(single(hl.sum(X + r.x)))
    assert [stage.has_predicate for stage in dag.stages] == [False, True, False]
    loops = [loop.name for loop in dag.stages[1].loops]
    assert dict(zip(loops, dag.stages[1].condition_loops, strict=True)) == {
        name: name.startswith("r$") for name in loops
    }


def test_loops_along_which_a_predicate_changes_are_told_through_what_it_reads() -> None:
    table, total = hl.Func("table"), hl.Func("total")
    table[X, Y] = X * Y
    r = hl.RDom([(0, 4), (0, 4)], "r")
    r.where(table[X, r.y] > 3)
    total[X, Y] = 0
    total[X, Y] += r.x
    total.set_estimates([(0, 8), (0, 8)])
    stage = extract(total).stages[-1]
    told = {loop.name for loop, is_told in zip(stage.loops, stage.condition_loops, strict=True) if is_told}
    assert told == {"x", "r$y"}


@pytest.mark.parametrize(
    ("constrain", "is_told"),
    [
        (lambda buffer: None, False),
        (lambda buffer: buffer.dim(1).set_stride(512), False),
        (lambda buffer: buffer.dim(0).set_min(0), True),
        (lambda buffer: buffer.dim(1).set_min(0), True),
        (lambda buffer: buffer.dim(1).set_extent(64), True),
    ],
)
def test_an_output_whose_place_or_size_is_constrained_has_a_known_place(
    constrain: Callable[[Any], object], is_told: bool
) -> None:
    x, y, output = hl.Var("x"), hl.Var("y"), hl.Func("output")
    output[x, y] = x + y
    output[x, y] += 1
    constrain(output.output_buffer())
    output.set_estimates([(0, 64), (0, 64)])
    dag = extract(hl.Pipeline(output))
    assert dag.funcs[dag.outputs[0]].has_known_place == is_told


@pytest.mark.parametrize(
    ("value", "registers"),
    [
        (lambda s: s[X, Y], 1),
        (lambda s: s[X, Y] + 1, 2),
        (lambda s: (s[X, Y] + 1) * 2, 2),
        (lambda s: (s[X, Y] + s[X + 1, Y]) * (s[X, Y + 1] - s[X + 1, Y + 1]), 3),
        (lambda s: hl.select(s[X, Y] > 0, s[X + 1, Y], s[X + 2, Y]), 3),  # the condition first, which needs two
    ],
)
def test_branching_is_the_strahler_number(value: Callable[[hl.ImageParam], hl.Expr], registers: int) -> None:
    source, output = hl.ImageParam(hl.Float(32), 2, "source"), hl.Func("output")
    output[X, Y] = value(source)
    source.set_estimates([(0, 32), (0, 32)])
    output.set_estimates([(0, 16), (0, 16)])
    assert extract(output).stages[0].expr_branching == registers
