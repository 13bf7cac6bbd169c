"""Loops that pick among values, which are unrolled whole: at sizes with fewer turns of them, and with more."""

import halide as hl
from verified_runs import check, image

X, Y, C = (hl.Var(name) for name in "xyc")


def picked() -> hl.Pipeline:
    """Planes of luminance and colour differences."""
    source, output = image(hl.Int(32), "source", 400, 200, 3), hl.Func("output")
    red, green, blue = (source[X, Y, c] for c in range(3))
    luminance = red * 77 + green * 150 + blue * 29
    output[X, Y, C] = hl.mux(C, [luminance, (blue * 256 - luminance) * 3, (red * 256 - luminance) * 5]) + C
    output.set_estimates([(0, 400), (0, 200), (0, 3)])
    return hl.Pipeline(output)


def test_values_that_a_loop_picks_among() -> None:
    sizes = [[(w, h, c)] for w, h, c in ((400, 200, 3), (400, 200, 2), (65, 40, 5), (17, 3, 3), (1, 1, 1))]
    check(picked, *sizes)


def picked_twice() -> hl.Pipeline:
    """The transform of patches of four by four, along two loops."""
    source, rows, output = image(hl.Int(32), "source", 130, 130), hl.Func("rows"), hl.Func("output")
    u, v = hl.Var("u"), hl.Var("v")

    def transform(values: list[hl.Expr]) -> list[hl.Expr]:
        a, b, c, d = values
        return [a - c, b + c, c - b, b - d]

    rows[X, Y, u] = hl.mux(u, transform([source[2 * X + i, Y] for i in range(4)]))
    output[X, Y, u, v] = hl.mux(v, transform([rows[X, 2 * Y + i, u] for i in range(4)]))
    output.set_estimates([(0, 64), (0, 64), (0, 4), (0, 4)])
    return hl.Pipeline(output)


def test_values_that_two_loops_pick_among() -> None:
    check(picked_twice, [(64, 64, 4, 4)], [(33, 17, 4, 3)], [(9, 2, 2, 4)], [(1, 1, 1, 1)])
