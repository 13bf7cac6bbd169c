"""Reductions over domains that are not literal, or hardly there at all."""

from functools import partial

import halide as hl
import pytest
from verified_runs import Inputs, check, image

import metol

X, Y = hl.Var("x"), hl.Var("y")


def symbolic_domain() -> hl.Pipeline:
    """Sums over a window whose size is a parameter, as far as the input reaches."""
    source, radius = image(hl.Int(32), "source", 80, 48), hl.Param(hl.Int(32), "radius")
    radius.set_estimate(5)
    r = hl.RDom([(0, 2 * radius + 1), (0, source.height())], "r")
    sums, output = hl.Func("sums"), hl.Func("output")
    sums[X] = 0
    sums[X] += source[X + r.x, r.y] * (r.x + 1)
    output[X, Y] = sums[X] + Y
    output.set_estimates([(0, 70), (0, 40)])
    return hl.Pipeline(output)


@pytest.mark.slow
def test_symbolic_domain() -> None:
    for radius in (5, 0, 8):
        inputs = Inputs({"source": (96, 9)}, {"radius": radius})
        check(symbolic_domain, [(70, 40)], [(1, 1)], [(37, 5)], inputs=inputs)


def triangle() -> hl.Pipeline:
    """Sums below the diagonal, of a matrix whose size only the input tells."""
    source = image(hl.Int(32), "source", 50, 50)
    r = hl.RDom([(0, source.width()), (0, source.height())], "r")
    r.where(r.x < r.y)
    r.where((r.x + r.y) % 3 != X % 3)
    output = hl.Func("output")
    output[X] = 7
    output[X] += source[r.x, r.y] * X
    output.set_estimate(X, 0, 300)
    return hl.Pipeline(output)


@pytest.mark.slow
def test_where_with_a_var_in_it() -> None:
    check(triangle, [(300,)], [(1,)], [(37,)], inputs=Inputs({"source": (13, 17)}))


def triangular_product() -> hl.Pipeline:
    """A product of lower triangles: how far each sum goes, the row and the column say."""
    one, other = image(hl.Int(32), "one", 60, 60), image(hl.Int(32), "other", 60, 60)
    k, output = hl.RDom([(0, 60)], "k"), hl.Func("output")
    k.where(k.x <= hl.min(X, Y))
    output[X, Y] = 0
    output[X, Y] += one[k.x, Y] * other[X, k.x]
    output.set_estimates([(0, 60), (0, 60)])
    return hl.Pipeline(output)


def test_where_that_ends_a_sum_by_both_coordinates() -> None:
    check(triangular_product, [(60, 60)], [(1, 1)], [(5, 3)], [(9, 60)], [(37, 5)])


def gauss_elimination() -> hl.Pipeline:
    """Rows below the pivot, in an order that must stay; the predicate reads what is guarded."""
    source = image(hl.Float(32), "source", 12, 12)
    r = hl.RDom([(0, 12), (0, 12)], "r")
    r.where(r.x > r.y)
    lower, output = hl.Func("lower"), hl.Func("output")
    lower[X, Y] = source[X, Y]
    lower[X, r.x] -= lower[X, r.y] * hl.f32(0.5)
    output[X, Y] = lower[X, Y] * 2
    output.set_estimates([(0, 12), (0, 12)])
    return hl.Pipeline(output)


def test_where_over_a_recurrence() -> None:
    check(gauss_elimination, [(12, 12)], [(5, 3)], [(1, 1)])


def scalar_extent() -> hl.Pipeline:
    """A loop that a scalar input bounds, over a Func that is worth computing once."""
    source, count = image(hl.Int(32), "source", 64), hl.Param(hl.Int(32), "count")
    count.set_estimate(64)
    r = hl.RDom([(0, count)], "r")
    weights, output = hl.Func("weights"), hl.Func("output")
    weights[X] = source[X] * source[X] + X
    output[X, Y] = 0
    output[X, Y] += weights[r.x] * (X + Y * r.x)
    output.set_estimates([(0, 48), (0, 20)])
    return hl.Pipeline(output)


@pytest.mark.slow
def test_extent_from_a_scalar_input() -> None:
    for count in (64, 0, 1, 5):
        check(scalar_extent, [(48, 20)], [(1, 1)], [(13, 3)], inputs=Inputs(numbers={"count": count}))


def scalar_extent_with_a_value() -> hl.Pipeline:
    """The same without an estimate: the value that the parameter has stands in."""
    source, count = image(hl.Int(32), "source", 64), hl.Param(hl.Int(32), "count")
    count.set(64)
    r, output = hl.RDom([(0, count)], "r"), hl.Func("output")
    output[X] = 0
    output[X] += source[r.x] * X
    output.set_estimate(X, 0, 100)
    return hl.Pipeline(output)


def test_value_of_a_parameter_is_an_estimate() -> None:
    result = check(scalar_extent_with_a_value, [(100,)], inputs=Inputs(numbers={"count": 9}))
    assert [(e.name, e.value) for e in result.schedule.estimates if e.value is not None] == [("count", 64.0)]


def zero_dimensions() -> hl.Pipeline:
    """Scalars before, between and after: at root, and inside of others' loops."""
    source = image(hl.Int(32), "source", 200)
    r = hl.RDom([(0, 200)], "r")
    largest, scale, shifted = hl.Func("largest"), hl.Func("scale"), hl.Func("shifted")
    total, output = hl.Func("total"), hl.Func("output")
    largest[()] = hl.i32(0)
    largest[()] = hl.max(largest[()], source[r.x])
    scale[()] = largest[()] * 3 + 1
    shifted[X] = source[X] - scale[()]
    total[()] = hl.i32(0)
    total[()] += shifted[r.x]
    output[()] = total[()] + scale[()]
    return hl.Pipeline(output)


def test_zero_dimensions() -> None:
    check(zero_dimensions, [()])


def single_points() -> hl.Pipeline:
    """Everything has extent 1, by its estimate."""
    source, middle, output = image(hl.Int(32), "source", 3, 1), hl.Func("middle"), hl.Func("output")
    r = hl.RDom([(0, 1)], "r")
    middle[X, Y] = source[X, Y] + source[X + 2, Y]
    output[X, Y] = 1
    output[X, Y] += middle[X + r.x, Y] * 2
    output.set_estimates([(0, 1), (0, 1)])
    return hl.Pipeline(output)


def test_single_points() -> None:
    check(single_points, [(1, 1)], [(40, 17)])


def inner_product() -> hl.Pipeline:
    """An output of one dimension that reads itself."""
    matrix, vector = image(hl.Int(32), "matrix", 100, 60), image(hl.Int(32), "vector", 60)
    r, output = hl.RDom([(0, vector.width())], "r"), hl.Func("output")
    output[X] = X
    output[X] += matrix[X, r.x] * vector[r.x]
    output.set_estimate(X, 0, 100)
    return hl.Pipeline(output)


def test_output_of_one_dimension_that_reads_itself() -> None:
    check(inner_product, [(100,)], [(1,)], [(77,)], inputs=Inputs({"vector": (60,)}))


def test_output_that_reads_itself_need_not_be_aligned() -> None:
    # Halide compiles such reads to instructions that fault on memory that is no multiple of a vector.
    result = metol.autoschedule(inner_product(), threads=2)
    (own,) = (func.index for func in result.schedule.funcs if func.output == 0)
    calls = [d.call.value for d in result.schedule.directives if d.func == own and d.stage == 1]
    assert "vectorize" not in calls


def column_totals() -> hl.Pipeline:
    """The output itself is of one dimension, and reads itself."""
    source, output = image(hl.Int(32), "source", 70, 37), hl.Func("output")
    r = hl.RDom([(0, 70), (0, 37)], "r")
    output[X] = 1
    output[r.x] += source[r.x, r.y] * (r.y + 1)
    output.set_estimate(X, 0, 70)
    return hl.Pipeline(output)


def as_large_as_the_input() -> hl.Pipeline:
    """Only the input tells how far the loops go."""
    source, output = image(hl.Int(32), "source", 70, 37), hl.Func("output")
    r = hl.RDom([(0, source.width() - 2), (0, source.height() - 1)], "r")
    output[X, Y] = 7
    output[r.x + 1, r.y] = source[r.x, r.y] + source[r.x + 2, r.y + 1] * output[r.x + 1, r.y]
    output.set_estimates([(0, 70), (0, 37)])
    return hl.Pipeline(output)


@pytest.mark.slow
def test_outputs_with_loops_that_do_not_meet() -> None:
    check(column_totals, [(70,)], [(71,)], [(140,)])
    check(as_large_as_the_input, [(70, 37)], [(52, 11)], [(53, 40)], inputs=Inputs({"source": (53, 12)}))


def last_of_equals(width: int, height: int) -> hl.Pipeline:
    """Where the greatest number of a block is: Halide takes the order of equals, of which the last wins, for any."""
    source, best = image(hl.Int(32), "source", width, height, 40), hl.Func("best")
    r = hl.RDom([(0, width), (0, height)], "r")
    value = source[r.x, r.y, X]
    best[X] = (hl.i32(-100), hl.i32(-1))
    best[X] = (hl.max(best[X][0], value), hl.select(best[X][0] > value, best[X][1], r.x + width * r.y))
    best.set_estimates([(0, 40)])
    return hl.Pipeline(best)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(4096, 1), (3, 500), (500, 3)])
def test_order_of_equals(width: int, height: int) -> None:
    inputs = Inputs({"source": (width, height, 40)})
    check(partial(last_of_equals, width, height), [(40,), (40,)], [(1,), (1,)], [(37,), (37,)], inputs=inputs)
