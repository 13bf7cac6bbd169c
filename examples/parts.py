"""Small pipelines, one for each part of the search space that the applications of the suite have no use for.

Run ``metol bench examples/parts.py:plus_transpose --options`` to see what each part brings to one of them.
"""

import halide as hl

X, Y = hl.Var("x"), hl.Var("y")


def image(*sizes: int, name: str, pixel: hl.Type | None = None) -> hl.ImageParam:
    """Return an input with its estimated sizes."""
    param = hl.ImageParam(pixel or hl.Float(32), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def plus_transpose(size: int = 4096) -> hl.Pipeline:
    """Return a smoothed matrix plus its transpose (`iterations`)."""
    matrix, root, total = image(size, size, name="matrix"), hl.Func("root"), hl.Func("total")
    edged = hl.BoundaryConditions.repeat_edge(matrix)
    window = [edged[X + i, Y + j] for j in (-1, 0, 1) for i in (-1, 0, 1)]
    root[X, Y] = hl.sqrt(sum(window, hl.f32(0)))
    total[X, Y] = root[X, Y] + root[Y, X]
    total.set_estimates([(0, size), (0, size)])
    return hl.Pipeline(total)


def dot_product(size: int = 1 << 24) -> hl.Pipeline:
    """Return the sum, modulo 2^32, of products of bytes: a single point, and so one long reduction (`rfactor`)."""
    a, b = image(size, name="a", pixel=hl.UInt(8)), image(size, name="b", pixel=hl.UInt(8))
    total, r = hl.Func("total"), hl.RDom([(0, size)], "r")
    total[()] = hl.u32(0)
    total[()] += hl.u32(a[r.x]) * hl.u32(b[r.x])
    return hl.Pipeline(total)


def transposed_product(size: int = 768) -> hl.Pipeline:
    """Return a matrix times another that is given transposed, and so read across its rows (`staging`)."""
    a, b, product = image(size, size, name="a"), image(size, size, name="b"), hl.Func("product")
    r = hl.RDom([(0, size)], "r")
    product[X, Y] = 0.0
    product[X, Y] += a[r.x, Y] * b[r.x, X]
    product.set_estimates([(0, size), (0, size)])
    return hl.Pipeline(product)


def extremes(width: int = 4096, height: int = 4096) -> hl.Pipeline:
    """Return the smallest and the largest value of each row of an image, as two outputs (`rfactor`)."""
    source, low, high = image(width, height, name="source"), hl.Func("low"), hl.Func("high")
    r, s = hl.RDom([(0, width)], "r"), hl.RDom([(0, width)], "s")
    low[Y] = source[0, Y]
    low[Y] = hl.min(low[Y], source[r.x, Y])
    high[Y] = source[0, Y]
    high[Y] = hl.max(high[Y], source[s.x, Y])
    for output in (low, high):
        output.set_estimates([(0, height)])
    return hl.Pipeline([low, high])


def shadows_and_lights(width: int = 4096, height: int = 4096) -> hl.Pipeline:
    """Return what of each pixel lies below and above one half, as two outputs that read the same (`fuse`)."""
    source, shadow, light = image(width, height, name="source"), hl.Func("shadow"), hl.Func("light")
    shadow[X, Y] = hl.u8(hl.clamp(source[X, Y], 0.0, 0.5) * 255.0)
    light[X, Y] = hl.u8(hl.clamp(source[X, Y] - 0.5, 0.0, 0.5) * 255.0)
    for output in (shadow, light):
        output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline([shadow, light])
