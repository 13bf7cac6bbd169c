"""Harris corner detection as a user writes it: the algorithm, the sizes to optimise for, and no schedule.

Run ``metol schedule examples/harris.py:harris`` to get a schedule for it.
"""

import halide as hl


def harris() -> hl.Pipeline:
    """Return a pipeline from a float image `input` [x, y, c] to its corner response, four pixels smaller each way."""
    x, y = hl.Var("x"), hl.Var("y")
    image = hl.ImageParam(hl.Float(32), 3, "input")

    gray = hl.Func("gray")
    weights = [hl.f32(0.299), hl.f32(0.587), hl.f32(0.114)]
    gray[x, y] = sum(weight * image[x, y, c] for c, weight in enumerate(weights))

    # Differences of neighbours (Sobel), centred on the pixel at (x + 1, y + 1).
    dx, dy = hl.Func("dx"), hl.Func("dy")
    right = gray[x + 2, y] + 2 * gray[x + 2, y + 1] + gray[x + 2, y + 2]
    left = gray[x, y] + 2 * gray[x, y + 1] + gray[x, y + 2]
    dx[x, y] = (right - left) / 12
    below = gray[x, y + 2] + 2 * gray[x + 1, y + 2] + gray[x + 2, y + 2]
    above = gray[x, y] + 2 * gray[x + 1, y] + gray[x + 2, y]
    dy[x, y] = (below - above) / 12

    # Products of differences, summed over 3x3 pixels.
    window = [(i, j) for j in range(3) for i in range(3)]
    xx, xy, yy = hl.Func("xx"), hl.Func("xy"), hl.Func("yy")
    xx[x, y] = dx[x, y] * dx[x, y]
    xy[x, y] = dx[x, y] * dy[x, y]
    yy[x, y] = dy[x, y] * dy[x, y]
    sum_xx, sum_xy, sum_yy = hl.Func("sum_xx"), hl.Func("sum_xy"), hl.Func("sum_yy")
    sum_xx[x, y] = sum(xx[x + i, y + j] for i, j in window)
    sum_xy[x, y] = sum(xy[x + i, y + j] for i, j in window)
    sum_yy[x, y] = sum(yy[x + i, y + j] for i, j in window)

    corners = hl.Func("corners")
    trace = sum_xx[x, y] + sum_yy[x, y]
    corners[x, y] = sum_xx[x, y] * sum_yy[x, y] - sum_xy[x, y] * sum_xy[x, y] - hl.f32(0.04) * trace * trace

    # The sizes to optimise for; the result works at any size.
    image.set_estimates([(0, 1536), (0, 2560), (0, 3)])
    corners.set_estimates([(0, 1532), (0, 2556)])
    return hl.Pipeline(corners)
