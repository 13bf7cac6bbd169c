"""Small pipelines with estimates that several tests extract; fresh Funcs at each call."""

import halide as hl

X, Y, C = hl.Var("x"), hl.Var("y"), hl.Var("c")


def image(name: str, sizes: tuple[int, ...], pixel: hl.Type | None = None) -> hl.ImageParam:
    """An input of these extents, from 0."""
    param = hl.ImageParam(pixel or hl.UInt(16), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def blur() -> hl.Pipeline:
    """Two Stages of three taps; 64 by 48 out."""
    source = image("source", (66, 50))
    blur_x, blur_y = hl.Func("blur_x"), hl.Func("blur_y")
    blur_x[X, Y] = (source[X, Y] + source[X + 1, Y] + source[X + 2, Y]) // 3
    blur_y[X, Y] = (blur_x[X, Y] + blur_x[X, Y + 1] + blur_x[X, Y + 2]) // 3
    blur_y.set_estimates([(0, 64), (0, 48)])
    return hl.Pipeline(blur_y)


def matmul() -> hl.Pipeline:
    """32 by 64 times 64 by 128."""
    a, b = image("a", (64, 32), hl.Float(32)), image("b", (128, 64), hl.Float(32))
    k = hl.RDom([(0, 64)], "k")
    product = hl.Func("product")
    product[X, Y] = 0.0
    product[X, Y] += a[k.x, Y] * b[X, k.x]
    product.set_estimates([(0, 128), (0, 32)])
    return hl.Pipeline(product)


def histogram() -> hl.Pipeline:
    """A scatter update, a scan of it, and a look-up in the scan."""
    source = image("source", (64, 48), hl.UInt(8))
    counts, sums, output = hl.Func("counts"), hl.Func("sums"), hl.Func("output")
    r = hl.RDom([(0, source.width()), (0, source.height())], "r")
    counts[X] = hl.u32(0)
    counts[hl.clamp(hl.i32(source[r.x, r.y]), 0, 255)] += hl.u32(1)
    bins = hl.RDom([(1, 255)], "bins")
    sums[X] = counts[X]
    sums[bins.x] = sums[bins.x - 1] + counts[bins.x]
    output[X, Y] = sums[hl.i32(source[X, Y])]
    output.set_estimates([(0, 64), (0, 48)])
    return hl.Pipeline(output)


def boundary(kind: str) -> hl.Pipeline:
    """A shifted read through one of Halide's boundary conditions; the input is 40 by 30."""
    source = image("source", (40, 30), hl.UInt(8))
    wrap = getattr(hl.BoundaryConditions, kind)
    padded = wrap(source, hl.u8(0)) if kind == "constant_exterior" else wrap(source)
    output = hl.Func("output")
    output[X, Y] = padded[X - 3, Y + 2]
    output.set_estimates([(0, 40), (0, 30)])
    return hl.Pipeline(output)


def single(value: hl.Expr, size: tuple[int, int] = (16, 12)) -> hl.Pipeline:
    """One Func `output(x, y)` of this value."""
    output = hl.Func("output")
    output[X, Y] = value
    output.set_estimates([(0, size[0]), (0, size[1])])
    return hl.Pipeline(output)
