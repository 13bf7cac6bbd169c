"""Coordinates that are data, what `undef` leaves unwritten, and reads without bounds."""

import halide as hl
import pytest
from verified_runs import Inputs, check, image, integers

from metol.errors import ExtractionError
from metol.pipeline import extract

X, Y = hl.Var("x"), hl.Var("y")


def look_up() -> hl.Pipeline:
    """A table that a byte goes into; nothing clamps it but its type."""
    source, table = image(hl.UInt(8), "source", 90, 40), hl.Func("table")
    index, output = hl.Func("index"), hl.Func("output")
    table[X] = X * X - 3
    index[X, Y] = source[X, Y] + hl.u8(X)
    output[X, Y] = table[hl.i32(index[X, Y])] + table[hl.i32(index[X + 1, Y])]
    output.set_estimates([(0, 80), (0, 40)])
    return hl.Pipeline(output)


def test_read_bounded_by_its_type() -> None:
    check(look_up, [(80, 40)], [(1, 1)], [(37, 5)], inputs=Inputs(fills={"source": integers(0, 256)}))


def look_up_in_an_input() -> hl.Pipeline:
    """The same with an input for a table, and a coordinate in two steps."""
    source, table = image(hl.UInt(8), "source", 90, 40), image(hl.Int(16), "table", 256, 2)
    first, output = hl.Func("first"), hl.Func("output")
    first[X, Y] = hl.u8(table[hl.i32(source[X, Y]), 0])
    output[X, Y] = table[hl.i32(first[X, Y]), hl.i32(source[X, Y] & 1)]
    output.set_estimates([(0, 80), (0, 40)])
    return hl.Pipeline(output)


def test_read_of_an_input_bounded_by_its_type() -> None:
    inputs = Inputs({"table": (256, 2)}, fills={"source": integers(0, 256), "table": integers(0, 256)})
    check(look_up_in_an_input, [(80, 40)], [(1, 1)], [(37, 5)], inputs=inputs)


def warp() -> hl.Pipeline:
    """Nothing bounds where it reads, but a boundary condition catches all; Halide compiles that if it is inlined."""
    source, shift = image(hl.Int(32), "source", 64, 48), image(hl.Int(32), "shift", 64, 48)
    padded, output = hl.BoundaryConditions.constant_exterior(source, -1), hl.Func("output")
    output[X, Y] = padded[X + shift[X, Y], Y - shift[X, Y] // 2] + padded[X, Y]
    output.set_estimates([(0, 64), (0, 48)])
    return hl.Pipeline(output)


def test_unbounded_read_through_a_boundary_condition() -> None:
    inputs = Inputs({"source": (64, 48)}, fills={"shift": integers(-80, 80)})
    check(warp, [(64, 48)], [(1, 1)], [(37, 5)], inputs=inputs)


def unbounded_chain() -> hl.Pipeline:
    """Funcs that only an inlined evaluation can give, through each other."""
    shift = image(hl.Int(32), "shift", 64)
    ramp, bent, output = hl.Func("ramp"), hl.Func("bent"), hl.Func("output")
    ramp[X] = X * 3
    bent[X] = ramp[X + 1] - ramp[X // 2]
    output[X] = bent[shift[X]] + bent[X]
    output.set_estimate(X, 0, 64)
    return hl.Pipeline(output)


def test_unbounded_read_of_funcs_that_can_be_inlined() -> None:
    check(unbounded_chain, [(64,)], [(1,)], [(37,)], inputs=Inputs(fills={"shift": integers(-1000, 1000)}))


def unbounded_read_of_an_input() -> hl.Pipeline:
    source, index, output = image(hl.Int(32), "source", 64), image(hl.Int(32), "index", 64), hl.Func("output")
    output[X] = source[index[X] + 1]
    output.set_estimate(X, 0, 64)
    return hl.Pipeline(output)


def unbounded_read_through_a_func() -> hl.Pipeline:
    source, index = image(hl.Int(32), "source", 64), image(hl.Int(32), "index", 64)
    double, output = hl.Func("double"), hl.Func("output")
    double[X] = source[X] * 2
    output[X] = double[index[X]]
    output.set_estimate(X, 0, 64)
    return hl.Pipeline(output)


def unbounded_read_of_an_update() -> hl.Pipeline:
    index, bins, output = image(hl.Int(32), "index", 64), hl.Func("bins"), hl.Func("output")
    bins[X] = 0
    bins[X] += 3
    output[X] = bins[index[X]]
    output.set_estimate(X, 0, 64)
    return hl.Pipeline(output)


@pytest.mark.parametrize(
    ("build", "access"),
    [
        (unbounded_read_of_an_input, r"Func `output` reads `source\(.*index.*\+ 1\)` in dimension 0"),
        (unbounded_read_through_a_func, r"Func `double` reads `source\(x\)` in dimension 0"),
        (unbounded_read_of_an_update, r"Func `output` reads `bins\(.*index.*\)` in dimension 0"),
    ],
)
def test_unbounded_read_is_an_error_that_names_the_access(build: object, access: str) -> None:
    with pytest.raises(ExtractionError, match=access + r".*unbounded.*hl\.clamp"):
        extract(build())  # type: ignore[operator]


def scatter() -> hl.Pipeline:
    """Assignments, sums and several updates to places that data tells."""
    source, weights = image(hl.UInt(8), "source", 60, 32), image(hl.Int(32), "weights", 60, 32)
    r = hl.RDom([(0, 60), (0, 32)], "r")
    sums, last, output = hl.Func("sums"), hl.Func("last"), hl.Func("output")
    place = hl.i32(source[r.x, r.y])
    sums[X] = 0
    sums[place] += weights[r.x, r.y]
    sums[255 - place] -= 1
    last[X, Y] = -1
    last[place, hl.i32(source[r.x, r.y] & 7)] = r.x + 60 * r.y
    output[X, Y] = sums[X] + last[X, hl.clamp(Y, 0, 7)]
    output.set_estimates([(0, 256), (0, 40)])
    return hl.Pipeline(output)


def test_scatter() -> None:
    check(scatter, [(256, 40)], [(1, 1)], [(37, 5)], inputs=Inputs(fills={"source": integers(0, 256)}))


def scatter_along_one_dimension() -> hl.Pipeline:
    """Each column has a scatter of its own."""
    source = image(hl.UInt(8), "source", 60, 32)
    r, output = hl.RDom([(0, 32)], "r"), hl.Func("output")
    output[X, Y] = X
    output[X, hl.i32(source[X, r.x] % 16)] += r.x
    output.set_estimates([(0, 60), (0, 16)])
    return hl.Pipeline(output)


def test_scatter_along_one_dimension() -> None:
    check(scatter_along_one_dimension, [(60, 16)], [(1, 16)], [(37, 21)])


def scatter_of_rows() -> hl.Pipeline:
    """Whole rows go to places that are data: lanes of a vector along them never meet."""
    rows, places, output = image(hl.Float(32), "rows", 60, 90), image(hl.UInt(8), "places", 90), hl.Func("output")
    summed, r = hl.Func("summed"), hl.RDom([(0, 90)], "r")
    summed[X, Y] = hl.f32(0)
    summed[X, hl.i32(places[r.x] % 16)] += rows[X, r.x]
    output[X, Y] = summed[X, Y] + 1
    for func in (output, summed):
        func.set_estimates([(0, 60), (0, 16)])
    return hl.Pipeline([output, summed])


def test_scatter_of_rows() -> None:
    check(scatter_of_rows, [(60, 16), (60, 16)], [(1, 16), (1, 16)], [(37, 16), (60, 16)])


def undefined_start() -> hl.Pipeline:
    """Even rows from one update, odd ones from another; nothing before them."""
    source = image(hl.Int(32), "source", 80, 60)
    r = hl.RDom([(0, 24)], "r")
    woven, output = hl.Func("woven"), hl.Func("output")
    woven[X, Y] = hl.undef(hl.Int(32))
    woven[X, 2 * r.x] = source[X, r.x] * 2
    woven[X, 2 * r.x + 1] = source[X, r.x + 1] - woven[X, 2 * r.x]
    output[X, Y] = woven[X, Y] + woven[X + 1, Y]
    output.set_estimates([(0, 70), (0, 48)])
    return hl.Pipeline(output)


def test_undef() -> None:
    check(undefined_start, [(70, 48)], [(1, 1)], [(37, 5)])


def undefined_output() -> hl.Pipeline:
    """An output that the caller has filled in part: only a border is written."""
    source, output = image(hl.Int(32), "source", 80), hl.Func("output")
    output[X, Y] = hl.undef(hl.Int(32))
    output[X, 0] = source[X]
    output[X, 3] = source[X] + output[X, 0]
    output.set_estimates([(0, 70), (0, 48)])
    return hl.Pipeline(output)


def test_undef_output_leaves_the_rest_alone() -> None:
    check(undefined_output, [(70, 48)], [(1, 4)], [(37, 5)])


def undefined_branch() -> hl.Pipeline:
    """`undef` inside of an expression: nothing is stored where it is chosen."""
    source, output = image(hl.Int(32), "source", 80, 48), hl.Func("output")
    output[X, Y] = source[X, Y]
    output[X, Y] = hl.select(source[X, Y] > 50, X, hl.undef(hl.Int(32)))
    output.set_estimates([(0, 70), (0, 48)])
    return hl.Pipeline(output)


def test_undef_in_an_expression() -> None:
    check(undefined_branch, [(70, 48)], [(1, 1)], [(37, 5)])
