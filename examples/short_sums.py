"""Pipelines whose sums have few steps: windows of a shape, products of small matrices.

Run ``metol bench examples/short_sums.py:disc_gradient`` to see how one of them does beside Halide's own autoschedulers.
"""

import halide as hl

X, Y, N = (hl.Var(name) for name in "xyn")


def image(*sizes: int, name: str, pixel: hl.Type | None = None) -> hl.ImageParam:
    """Return an input with its estimated sizes."""
    param = hl.ImageParam(pixel or hl.Float(32), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def disc_gradient(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return the greatest less the least of the bytes in a disc of 21 pixels around each."""
    source = image(width + 4, height + 4, name="source", pixel=hl.UInt(8))
    ends, output = hl.Func("ends"), hl.Func("output")
    r = hl.RDom([(0, 5), (0, 5)], "r")
    r.where((r.x - 2) * (r.x - 2) + (r.y - 2) * (r.y - 2) <= 5)
    value = source[X + r.x, Y + r.y]
    ends[X, Y] = (hl.u8(255), hl.u8(0))
    ends[X, Y] = (hl.min(ends[X, Y][0], value), hl.max(ends[X, Y][1], value))
    output[X, Y] = ends[X, Y][1] - ends[X, Y][0]
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def small_products(count: int = 100_000) -> hl.Pipeline:
    """Return products of many pairs of matrices of four by four, each stored row by row."""
    left, right = image(4, 4, count, name="left"), image(4, 4, count, name="right")
    product, output = hl.Func("product"), hl.Func("output")
    k = hl.RDom([(0, 4)], "k")
    product[X, Y, N] = hl.f32(0)
    product[X, Y, N] += left[k.x, Y, N] * right[X, k.x, N]
    output[X, Y, N] = product[X, Y, N]
    for buffer in (left, right, output.output_buffer()):
        buffer.dim(0).set_bounds(0, 4)
        buffer.dim(1).set_bounds(0, 4).set_stride(4)
        buffer.dim(2).set_stride(16)
    output.set_estimates([(0, 4), (0, 4), (0, count)])
    return hl.Pipeline(output)
