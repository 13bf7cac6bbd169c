"""Sums of products of narrow numbers, as networks with quantized weights have them: both factors lie along rows.

Run ``metol bench examples/narrow_products.py`` to see how they do beside Halide's own autoschedulers.
"""

import halide as hl

X, Y, C = (hl.Var(name) for name in "xyc")


def image(*sizes: int, name: str, pixel: hl.Type) -> hl.ImageParam:
    """Return an input with its estimated sizes."""
    param = hl.ImageParam(pixel, len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def byte_of(total: hl.Expr) -> hl.Expr:
    """Return a sum of products as a byte."""
    return hl.u8(hl.clamp(total >> 10, 0, 255))


def _matrices(first: hl.Type, second: hl.Type, rows: int, columns: int, depth: int) -> hl.Pipeline:
    one, other = image(depth, rows, name="one", pixel=first), image(depth, columns, name="other", pixel=second)
    k, sums, output = hl.RDom([(0, depth)], "k"), hl.Func("sums"), hl.Func("output")
    sums[X, Y] = 0
    sums[X, Y] += hl.i32(one[k.x, Y]) * hl.i32(other[k.x, X])
    output[X, Y] = byte_of(sums[X, Y])
    output.set_estimates([(0, columns), (0, rows)])
    return hl.Pipeline(output)


def byte_matrices(rows: int = 512, columns: int = 512, depth: int = 512) -> hl.Pipeline:
    """Return a matrix of bytes times one of signed bytes, stored by columns."""
    return _matrices(hl.UInt(8), hl.Int(8), rows, columns, depth)


def word_matrices(rows: int = 512, columns: int = 512, depth: int = 512) -> hl.Pipeline:
    """Return the same of 16-bit numbers."""
    return _matrices(hl.Int(16), hl.Int(16), rows, columns, depth)


def byte_vector(columns: int = 4096, depth: int = 4096) -> hl.Pipeline:
    """Return a vector of bytes times a matrix of signed bytes."""
    return _matrices(hl.UInt(8), hl.Int(8), 1, columns, depth)


def channel_convolution(channels: int = 64, filters: int = 64, side: int = 56) -> hl.Pipeline:
    """Return a convolution of three by three of bytes, the channels innermost in images and filters."""
    source = image(channels, side + 2, side + 2, name="source", pixel=hl.UInt(8))
    weights = image(channels, filters, 3, 3, name="weights", pixel=hl.Int(8))
    r, sums, output = hl.RDom([(0, channels), (0, 3), (0, 3)], "r"), hl.Func("sums"), hl.Func("output")
    sums[C, X, Y] = 0
    sums[C, X, Y] += hl.i32(source[r.x, X + r.y, Y + r.z]) * hl.i32(weights[r.x, C, r.y, r.z])
    output[C, X, Y] = byte_of(sums[C, X, Y])
    output.set_estimates([(0, filters), (0, side), (0, side)])
    return hl.Pipeline(output)
