"""Pipelines as people write them who have never seen the suite: interleaved channels, sums of rows, pooling.

Run ``metol bench examples/everyday.py:median_rgb`` to see how one of them does beside Halide's own autoschedulers.
"""

import functools
import math

import halide as hl

X, Y, C, N = (hl.Var(name) for name in "xycn")


def image(*sizes: int, name: str, pixel: hl.Type | None = None) -> hl.ImageParam:
    """Return an input with its estimated sizes."""
    param = hl.ImageParam(pixel or hl.Float(32), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def interleave(buffer: hl.ImageParam | hl.OutputImageParam, channels: int = 3) -> None:
    """Say that the channels of a pixel lie side by side, as in most files."""
    buffer.dim(0).set_stride(channels)
    buffer.dim(2).set_stride(1).set_bounds(0, channels)


def middle(a: hl.Expr, b: hl.Expr, c: hl.Expr) -> hl.Expr:
    """Return the median of three."""
    return hl.max(hl.min(a, b), hl.min(hl.max(a, b), c))


def median_rgb(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return the median of nine pixels, channel by channel, of interleaved bytes."""
    source = image(width + 2, height + 2, 3, name="source", pixel=hl.UInt(8))
    interleave(source)
    low, mid, high, output = (hl.Func(name) for name in ("low", "mid", "high", "output"))
    a, b, c = (source[X, Y + i, C] for i in range(3))
    low[X, Y, C], mid[X, Y, C], high[X, Y, C] = hl.min(hl.min(a, b), c), middle(a, b, c), hl.max(hl.max(a, b), c)
    lows, mids, highs = ([func[X + i, Y, C] for i in range(3)] for func in (low, mid, high))
    greatest, least = hl.max(hl.max(lows[0], lows[1]), lows[2]), hl.min(hl.min(highs[0], highs[1]), highs[2])
    output[X, Y, C] = middle(greatest, middle(*mids), least)
    interleave(output.output_buffer())
    output.set_estimates([(0, width), (0, height), (0, 3)])
    return hl.Pipeline(output)


def split_channels(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return interleaved bytes as planes of floats, as what goes into a network."""
    source, planes = image(width, height, 3, name="source", pixel=hl.UInt(8)), hl.Func("planes")
    interleave(source)
    planes[X, Y, C] = hl.f32(source[X, Y, C]) * hl.f32(2 / 255) - hl.f32(1)
    planes.set_estimates([(0, width), (0, height), (0, 3)])
    return hl.Pipeline(planes)


def matrix_vector(width: int = 2048, height: int = 2048) -> hl.Pipeline:
    """Return a matrix times a vector."""
    matrix, vector, product = image(width, height, name="matrix"), image(width, name="vector"), hl.Func("product")
    k = hl.RDom([(0, width)], "k")
    product[Y] = hl.f32(0)
    product[Y] += matrix[k.x, Y] * vector[k.x]
    product.set_estimates([(0, height)])
    return hl.Pipeline(product)


def layer_norm(features: int = 768, rows: int = 4096) -> hl.Pipeline:
    """Return rows less their means, by their spread."""
    source, total, spread, output = image(features, rows, name="source"), *map(hl.Func, ("total", "spread", "output"))
    k, r = hl.RDom([(0, features)], "k"), hl.RDom([(0, features)], "r")
    share = hl.f32(1 / features)
    total[N] = hl.f32(0)
    total[N] += source[k.x, N]
    away = source[r.x, N] - total[N] * share
    spread[N] = hl.f32(0)
    spread[N] += away * away
    output[X, N] = (source[X, N] - total[N] * share) / hl.sqrt(spread[N] * share + hl.f32(1e-5))
    output.set_estimates([(0, features), (0, rows)])
    return hl.Pipeline(output)


def max_pool(side: int = 112, channels: int = 64, images: int = 16) -> hl.Pipeline:
    """Return the greatest of two by two bytes, of planes."""
    source = image(2 * side, 2 * side, channels, images, name="source", pixel=hl.UInt(8))
    greatest, output = hl.Func("greatest"), hl.Func("output")
    r = hl.RDom([(0, 2), (0, 2)], "r")
    greatest[X, Y, C, N] = hl.u8(0)
    greatest[X, Y, C, N] = hl.max(greatest[X, Y, C, N], source[2 * X + r.x, 2 * Y + r.y, C, N])
    output[X, Y, C, N] = greatest[X, Y, C, N]
    output.set_estimates([(0, side), (0, side), (0, channels), (0, images)])
    return hl.Pipeline(output)


def box_sum(source: hl.Func, radius: int, name: str) -> hl.Func:
    """Return sums over square windows, along each side by itself."""
    along_y, along_x = (hl.RDom([(-radius, 2 * radius + 1)], f"{name}_{side}") for side in "yx")
    down, across = hl.Func(f"{name}_down"), hl.Func(f"{name}_across")
    down[X, Y] = hl.f32(0)
    down[X, Y] += source[X, Y + along_y.x]
    across[X, Y] = hl.f32(0)
    across[X, Y] += down[X + along_x.x, Y]
    return across


def guided_filter(width: int = 1280, height: int = 720, radius: int = 8) -> hl.Pipeline:
    """Return a picture smoothed but for its edges (He et al. 2010, with the picture as its own guide)."""
    source = hl.BoundaryConditions.repeat_edge(image(width, height, name="source"))
    square, slope, offset, output = (hl.Func(name) for name in ("square", "slope", "offset", "output"))
    share = hl.f32(1 / (2 * radius + 1) ** 2)
    square[X, Y] = source[X, Y] * source[X, Y]
    mean, of_squares = (box_sum(func, radius, name) for func, name in ((source, "mean"), (square, "of_squares")))
    average = mean[X, Y] * share
    variance = of_squares[X, Y] * share - average * average
    slope[X, Y] = variance / (variance + hl.f32(0.01))
    offset[X, Y] = average * (hl.f32(1) - slope[X, Y])
    slopes, offsets = (box_sum(func, radius, name) for func, name in ((slope, "slopes"), (offset, "offsets")))
    output[X, Y] = (slopes[X, Y] * source[X, Y] + offsets[X, Y]) * share
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def temporal_denoise(width: int = 1280, height: int = 720, frames: int = 5) -> hl.Pipeline:
    """Return a mean of frames, by how much the surroundings of each pixel differ from those in the middle frame."""
    video = image(width, height, frames, name="video", pixel=hl.UInt(8))
    sides = [(0, width), (0, height), (hl.Expr(), hl.Expr())]
    clamped = hl.BoundaryConditions.repeat_edge(video, sides)
    near, t = hl.RDom([(-1, 3), (-1, 3)], "near"), hl.RDom([(0, frames)], "t")
    difference, sums, output = hl.Func("difference"), hl.Func("sums"), hl.Func("output")
    here, middle_frame = (clamped[X + near.x, Y + near.y, frame] for frame in (N, frames // 2))
    difference[X, Y, N] = hl.u16(0)
    difference[X, Y, N] += hl.u16(hl.absd(here, middle_frame))
    weight = hl.fast_exp(hl.f32(difference[X, Y, t.x]) * hl.f32(-1 / 180))
    sums[X, Y] = (hl.f32(0), hl.f32(0))
    sums[X, Y] = (sums[X, Y][0] + weight * hl.f32(video[X, Y, t.x]), sums[X, Y][1] + weight)
    output[X, Y] = hl.u8(sums[X, Y][0] / sums[X, Y][1] + hl.f32(0.5))
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def nearest_centroid(points: int = 20000, features: int = 16, centroids: int = 64) -> hl.Pipeline:
    """Return which centroid is nearest to each point, as a step of k-means asks."""
    data, centers = image(points, features, name="data"), image(centroids, features, name="centers")
    feature, k = hl.RDom([(0, features)], "feature"), hl.RDom([(0, centroids)], "k")
    distance, best, output = hl.Func("distance"), hl.Func("best"), hl.Func("output")
    step = data[N, feature.x] - centers[C, feature.x]
    distance[N, C] = hl.f32(0)
    distance[N, C] += step * step
    best[N] = (hl.f32(1e30), hl.i32(0))
    is_nearer = distance[N, k.x] < best[N][0]
    best[N] = (hl.select(is_nearer, distance[N, k.x], best[N][0]), hl.select(is_nearer, k.x, best[N][1]))
    output[N] = best[N][1]
    output.set_estimates([(0, points)])
    return hl.Pipeline(output)


def row_moments(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return the sum of each row, and its first two moments."""
    source, moments, output = (
        image(width, height, name="source", pixel=hl.UInt(8)),
        hl.Func("moments"),
        hl.Func("output"),
    )
    k = hl.RDom([(0, width)], "k")
    value, place = hl.f32(source[k.x, Y]), hl.f32(k.x)
    moments[Y] = (hl.f32(0), hl.f32(0), hl.f32(0))
    sums = moments[Y]
    moments[Y] = (sums[0] + value, sums[1] + value * place, sums[2] + value * place * place)
    output[C, Y] = hl.mux(C, [moments[Y][i] for i in range(3)])
    output.set_estimates([(0, 3), (0, height)])
    return hl.Pipeline(output)


def colour_matrix(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return each pixel's colours by a matrix, of an array [row, column, channel] as NumPy has it."""
    source, matrix = image(3, width, height, name="source", pixel=hl.UInt(8)), image(3, 3, name="matrix")
    output = hl.Func("output")
    mixed = sum((matrix[k, C] * hl.f32(source[k, X, Y]) for k in range(3)), hl.f32(0.5))
    output[C, X, Y] = hl.u8(hl.clamp(mixed, hl.f32(0), hl.f32(255)))
    for buffer in (source, output.output_buffer()):
        buffer.dim(0).set_bounds(0, 3)
        buffer.dim(1).set_stride(3)
    output.set_estimates([(0, 3), (0, width), (0, height)])
    return hl.Pipeline(output)


def demosaic(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return a Bayer mosaic as pixels, by means of neighbours."""
    raw, output = image(width + 2, height + 2, name="raw", pixel=hl.UInt(16)), hl.Func("output")

    def mean(*places: tuple[int, int]) -> hl.Expr:
        total = sum((hl.i32(raw[X + 1 + dx, Y + 1 + dy]) for dx, dy in places), hl.i32(len(places) // 2))
        return total // len(places)

    own, beside, above = mean((0, 0)), mean((-1, 0), (1, 0)), mean((0, -1), (0, 1))
    cross, corners = mean((-1, 0), (1, 0), (0, -1), (0, 1)), mean((-1, -1), (1, -1), (-1, 1), (1, 1))
    is_left, is_top = X % 2 == 0, Y % 2 == 0
    red = hl.select(is_top, hl.select(is_left, beside, own), hl.select(is_left, corners, above))
    green = hl.select(is_left == is_top, own, cross)
    blue = hl.select(is_top, hl.select(is_left, above, corners), hl.select(is_left, own, beside))
    output[C, X, Y] = hl.u8(hl.min(hl.mux(C, [red, green, blue]) >> 2, 255))
    output.output_buffer().dim(0).set_bounds(0, 3)
    output.output_buffer().dim(1).set_stride(3)
    output.set_estimates([(0, 3), (0, width), (0, height)])
    return hl.Pipeline(output)


def taps(func: hl.Func | hl.ImageParam, dx: int, dy: int, weights: tuple[int, ...]) -> hl.Expr:
    """Return a weighted sum of neighbours around a point, one (dx, dy) apart."""
    half = len(weights) // 2
    places = ((weight, i - half) for i, weight in enumerate(weights))
    return sum((weight * func[X + i * dx, Y + i * dy] for weight, i in places), hl.f32(0))


def smoothed(func: hl.Func, name: str, weights: tuple[int, ...]) -> hl.Func:
    """Return a Func smoothed along rows, then along columns."""
    rows, both = hl.Func(f"{name}_rows"), hl.Func(f"{name}_smooth")
    rows[X, Y] = taps(func, 1, 0, weights) * hl.f32(1 / sum(weights))
    both[X, Y] = taps(rows, 0, 1, weights) * hl.f32(1 / sum(weights))
    return both


def outputs_of(width: int, height: int, **values: hl.Expr) -> hl.Pipeline:
    """Return a pipeline of an output for each value."""
    outputs = [hl.Func(name) for name in values]
    for output, value in zip(outputs, values.values(), strict=True):
        output[X, Y] = value
        output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(outputs)


def optical_flow(width: int = 1536, height: int = 1024) -> hl.Pipeline:
    """Return the flow between two frames along x and along y, two outputs: Lucas and Kanade's least squares."""
    first, second = (image(width, height, name=name) for name in ("first", "second"))
    before, after = (hl.BoundaryConditions.repeat_edge(frame, [(0, width), (0, height)]) for frame in (first, second))
    slopes = {name: hl.Func(name) for name in ("across", "down", "change")}
    slopes["across"][X, Y] = (before[X + 1, Y] - before[X - 1, Y]) * hl.f32(0.5)
    slopes["down"][X, Y] = (before[X, Y + 1] - before[X, Y - 1]) * hl.f32(0.5)
    slopes["change"][X, Y] = after[X, Y] - before[X, Y]

    def correlation(one: str, other: str) -> hl.Expr:
        product = hl.Func(f"{one}_{other}")
        product[X, Y] = slopes[one][X, Y] * slopes[other][X, Y]
        return smoothed(product, product.name(), (1, 1, 1, 1, 1))[X, Y]

    xx, yy, xy = correlation("across", "across"), correlation("down", "down"), correlation("across", "down")
    xt, yt = correlation("across", "change"), correlation("down", "change")
    determinant = xx * yy - xy * xy + hl.f32(1e-3)
    return outputs_of(width, height, flow_x=(xy * yt - yy * xt) / determinant, flow_y=(xy * xt - xx * yt) / determinant)


def local_extremes(width: int = 1536, height: int = 1024) -> hl.Pipeline:
    """Return the least and the largest of 49 bytes around each, and their mean, three outputs."""
    source = image(width, height, name="source", pixel=hl.UInt(8))
    whole = hl.BoundaryConditions.repeat_edge(source, [(0, width), (0, height)])
    least, largest, total = (hl.Func(name) for name in ("row_least", "row_largest", "row_total"))
    row = [whole[X + i - 3, Y] for i in range(7)]
    least[X, Y], largest[X, Y] = functools.reduce(hl.min, row), functools.reduce(hl.max, row)
    total[X, Y] = sum(map(hl.u16, row), hl.u16(0))
    columns = ([func[X, Y + i - 3] for i in range(7)] for func in (least, largest, total))
    lows, highs, totals = columns
    return outputs_of(
        width,
        height,
        least=functools.reduce(hl.min, lows),
        largest=functools.reduce(hl.max, highs),
        mean=hl.u8(sum(totals, hl.u16(0)) // 49),
    )


def detail_bands(width: int = 1536, height: int = 1024) -> hl.Pipeline:
    """Return an image as fine details, coarse details and the rest, three outputs."""
    source = image(width, height, name="source")
    whole = hl.BoundaryConditions.repeat_edge(source, [(0, width), (0, height)])
    once = smoothed(whole, "once", (1, 4, 6, 4, 1))
    twice = smoothed(once, "twice", (1, 4, 6, 4, 1))
    values = whole[X, Y], once[X, Y], twice[X, Y]
    return outputs_of(width, height, fine=values[0] - values[1], coarse=values[1] - values[2], rest=values[2])


def sums_below(count: int = 4096) -> hl.Pipeline:
    """Return the sum of all numbers that are less, of each number."""
    source, below = image(count, name="source"), hl.Func("below")
    r = hl.RDom([(0, count)], "r")
    r.where(source[r.x] < source[X])
    below[X] = hl.f32(0)
    below[X] += source[r.x]
    below.set_estimates([(0, count)])
    return hl.Pipeline(below)


def sparse_product(rows: int = 10000, values: int = 1000000, longest: int = 200) -> hl.Pipeline:
    """Return the product of a sparse matrix, whose rows follow each other (CSR), and a vector."""
    starts, columns = image(rows + 1, name="starts", pixel=hl.Int(32)), image(values, name="columns", pixel=hl.Int(32))
    weights, vector = image(values, name="weights"), image(rows, name="vector")
    product = hl.Func("product")
    r = hl.RDom([(0, longest)], "r")
    r.where(starts[Y] + r.x < starts[Y + 1])
    place = hl.clamp(starts[Y] + r.x, 0, weights.dim(0).extent() - 1)
    product[Y] = hl.f32(0)
    product[Y] += weights[place] * vector[hl.clamp(columns[place], 0, rows - 1)]
    product.set_estimates([(0, rows)])
    return hl.Pipeline(product)


def segment_sums(features: int = 64, rows: int = 20000, segments: int = 1000) -> hl.Pipeline:
    """Return the sums of all rows of each segment, as of the points in each cell of a grid."""
    values, segment = image(features, rows, name="values"), image(rows, name="segment", pixel=hl.Int(32))
    sums, r = hl.Func("sums"), hl.RDom([(0, rows)], "r")
    sums[X, Y] = hl.f32(0)
    sums[X, hl.clamp(segment[r.x], 0, segments - 1)] += values[X, r.x]
    sums.set_estimates([(0, features), (0, segments)])
    return hl.Pipeline(sums)


def value_noise(width: int = 1024, height: int = 1024, octaves: int = 4) -> hl.Pipeline:
    """Return noise of several octaves: numbers at the corners of squares, mixed, from a table by a hash."""
    shuffled, values = image(256, name="shuffled", pixel=hl.Int(32)), image(16, name="values")
    octave, output = hl.Func("octave"), hl.Func("output")
    scale = hl.f32(hl.i32(1) << N) / 64
    x, y = hl.f32(X) * scale, hl.f32(Y) * scale
    left, top = hl.floor(x), hl.floor(y)

    def corner(dx: int, dy: int) -> hl.Expr:
        return values[shuffled[(shuffled[(hl.i32(left) + dx) & 255] + hl.i32(top) + dy) & 255] & 15]

    above, below = (hl.lerp(corner(0, dy), corner(1, dy), x - left) for dy in (0, 1))
    octave[X, Y, N] = hl.lerp(above, below, y - top)
    output[X, Y] = functools.reduce(lambda sum_, n: sum_ + octave[X, Y, n] / 2**n, range(octaves), hl.f32(0))
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def inner_means(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return bytes, each the mean of its four neighbours, but for those of the border, which stay."""
    source, output = image(width, height, name="source", pixel=hl.UInt(8)), hl.Func("output")
    r = hl.RDom([(1, width - 2), (1, height - 2)], "r")
    output[X, Y] = source[X, Y]
    around = (source[r.x + dx, r.y + dy] for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)))
    output[r.x, r.y] = hl.u8(functools.reduce(lambda sum_, value: sum_ + value, around, hl.u16(2)) >> 2)
    output.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(output)


def column_sums(width: int = 2000, height: int = 2000) -> hl.Pipeline:
    """Return the sum of each column of a matrix, of which an RDom tells all places."""
    source, sums = image(width, height, name="source"), hl.Func("sums")
    r = hl.RDom([(0, width), (0, height)], "r")
    sums[X] = hl.f32(0)
    sums[r.x] += source[r.x, r.y]
    sums.set_estimates([(0, width)])
    return hl.Pipeline(sums)


def matrix_product(side: int = 512) -> hl.Pipeline:
    """Return the product of two matrices, of which an RDom tells all places."""
    one, other, product = image(side, side, name="one"), image(side, side, name="other"), hl.Func("product")
    r = hl.RDom([(0, side)] * 3, "r")
    product[X, Y] = hl.f32(0)
    product[r.x, r.y] += one[r.z, r.y] * other[r.x, r.z]
    product.set_estimates([(0, side), (0, side)])
    return hl.Pipeline(product)


def perspective_warp(width: int = 1280, height: int = 720) -> hl.Pipeline:
    """Return bytes of three interleaved channels as another camera sees them, between the four nearest pixels."""
    source, view = image(width, height, 3, name="source", pixel=hl.UInt(8)), image(3, 3, name="view")
    interleave(source)
    output = hl.Func("output")
    x, y, depth = (view[0, row] * X + view[1, row] * Y + view[2, row] for row in range(3))
    x, y = x / depth, y / depth
    left, top = hl.floor(x), hl.floor(y)

    def corner(dx: int, dy: int) -> hl.Expr:
        column = hl.clamp(hl.i32(left) + dx, 0, width - 1)
        return hl.f32(source[column, hl.clamp(hl.i32(top) + dy, 0, height - 1), C])

    above, below = (hl.lerp(corner(0, dy), corner(1, dy), x - left) for dy in (0, 1))
    output[X, Y, C] = hl.u8(hl.clamp(hl.lerp(above, below, y - top), hl.f32(0), hl.f32(255)))
    interleave(output.output_buffer())
    output.set_estimates([(0, width), (0, height), (0, 3)])
    return hl.Pipeline(output)


def running_sums(width: int = 2048, height: int = 1024) -> hl.Pipeline:
    """Return the sum of each pixel and all left of it; rows begin 8 KiB apart."""
    source, sums = image(width, height, name="source"), hl.Func("sums")
    r = hl.RDom([(1, width - 1)], "r")
    sums[X, Y] = source[X, Y]
    sums[r.x, Y] += sums[r.x - 1, Y]
    sums.set_estimates([(0, width), (0, height)])
    return hl.Pipeline(sums)


def sorted_rows(columns: int = 16, rows: int = 40000) -> hl.Pipeline:
    """Return rows of a few numbers, sorted by exchanges of neighbours, in as many rounds as there are columns."""
    before: hl.ImageParam | hl.Func = image(columns, rows, name="source")
    for number in range(columns):
        after = hl.Func(f"round_{number}")
        here, left, right = (before[hl.clamp(X + step, 0, columns - 1), Y] for step in (0, -1, 1))
        is_left = number % 2 == X % 2
        at_the_end = hl.select(is_left, columns - 1 == X, X == 0)
        after[X, Y] = hl.select(at_the_end, here, is_left, hl.min(here, right), hl.max(here, left))
        before = after
    before.set_estimates([(0, columns), (0, rows)])
    return hl.Pipeline(before)


def blurred_across(width: int = 2048, height: int = 1536) -> hl.Pipeline:
    """Return an image turned over its diagonal, each pixel a mean of five along its row, then along its column."""
    source = image(width + 4, height + 4, name="source")
    rows, turned, output = hl.Func("rows"), hl.Func("turned"), hl.Func("output")
    rows[X, Y] = sum((source[X + i, Y] for i in range(5)), hl.f32(0)) / 5
    turned[X, Y] = rows[Y, X]
    output[X, Y] = sum((turned[X + i, Y] for i in range(5)), hl.f32(0)) / 5
    output.set_estimates([(0, height), (0, width)])
    return hl.Pipeline(output)


def triangle_product(side: int = 512) -> hl.Pipeline:
    """Return the product of a lower triangular matrix and an upper one, of which the rest is not looked at."""
    lower, upper, product = image(side, side, name="lower"), image(side, side, name="upper"), hl.Func("product")
    k = hl.RDom([(0, side)], "k")
    k.where(k.x <= hl.min(X, Y))
    product[X, Y] = hl.f32(0)
    product[X, Y] += lower[k.x, Y] * upper[X, k.x]
    product.set_estimates([(0, side), (0, side)])
    return hl.Pipeline(product)


def luma_chroma(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return the brightness of a colour image and two differences of colours, in bytes, as three channels (BT.601)."""
    source = image(width, height, 3, name="source", pixel=hl.UInt(8))
    red, green, blue = (hl.i32(source[X, Y, channel]) for channel in range(3))
    weights = (66, 129, 25, 16), (-38, -74, 112, 128), (112, -94, -18, 128)
    sums = [((r * red + g * green + b * blue + 128) >> 8) + offset for r, g, b, offset in weights]
    output = hl.Func("output")
    output[X, Y, C] = hl.u8(hl.mux(C, sums))
    output.set_estimates([(0, width), (0, height), (0, 3)])
    return hl.Pipeline(output)


def lattice_step(side: int = 512) -> hl.Pipeline:
    """Return a step of a flow on a lattice: densities of nine directions move, and tend to balance (Boltzmann)."""
    across, down = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
    weights = (4 / 9, *[1 / 9] * 4, *[1 / 36] * 4)
    density, moments, output = image(side + 2, side + 2, 9, name="density"), hl.Func("moments"), hl.Func("output")
    moved = [density[X + 1 - across[k], Y + 1 - down[k], k] for k in range(9)]
    total = sum(moved[1:], moved[0])
    flows = (sum((turn[k] * moved[k] for k in range(9) if turn[k]), hl.f32(0)) / total for turn in (across, down))
    moments[X, Y] = (total, *flows)
    mass, right, up = (moments[X, Y][part] for part in range(3))

    def balanced(k: int) -> hl.Expr:
        along = 3 * (across[k] * right + down[k] * up)
        square = hl.f32(1.5) * (right * right + up * up)
        return hl.f32(weights[k]) * mass * (1 + along + hl.f32(0.5) * along * along - square)

    output[X, Y, C] = hl.mux(C, [hl.f32(0.4) * moved[k] + hl.f32(0.6) * balanced(k) for k in range(9)])
    output.set_estimates([(0, side), (0, side), (0, 9)])
    return hl.Pipeline(output)


def transposed_convolution(side: int = 64, channels: int = 16) -> hl.Pipeline:
    """Return an image of twice the size, each pixel by weights of four kinds, as last layers of networks do."""
    source = image(side // 2 + 2, side // 2 + 2, channels, name="source")
    weights = image(4, 4, channels, channels, name="weights")
    k, sums, output = hl.RDom([(0, 2), (0, 2), (0, channels)], "k"), hl.Func("sums"), hl.Func("output")
    weight = weights[(X + 1) % 2 + 2 * k.x, (Y + 1) % 2 + 2 * k.y, k.z, C]
    sums[X, Y, C] = hl.f32(0)
    sums[X, Y, C] += source[(X + 1) // 2 - k.x + 1, (Y + 1) // 2 - k.y + 1, k.z] * weight
    output[X, Y, C] = hl.max(sums[X, Y, C], 0)
    output.set_estimates([(0, side), (0, side), (0, channels)])
    return hl.Pipeline(output)


def cosine_blocks(blocks: int = 20000) -> hl.Pipeline:
    """Return the cosine transform of the rows of many blocks of 8 by 8, whose cosines nobody has put into a table."""
    source, k, output = image(8, 8, blocks, name="source"), hl.RDom([(0, 8)], "k"), hl.Func("output")
    output[X, Y, N] = hl.f32(0)
    output[X, Y, N] += source[k.x, Y, N] * hl.cos(hl.f32((2 * k.x + 1) * X) * hl.f32(math.pi / 16))
    output.set_estimates([(0, 8), (0, 8), (0, blocks)])
    return hl.Pipeline(output)


def windowed_halves(size: int = 1024, rows: int = 2000) -> hl.Pipeline:
    """Return the first step of a transform of windowed signals: sums and differences of their halves, as a Tuple."""
    source, windowed, output = image(size, rows, name="source"), hl.Func("windowed"), hl.Func("output")
    windowed[X, Y] = source[X, Y] * (hl.f32(0.5) - hl.f32(0.5) * hl.cos(hl.f32(X) * hl.f32(2 * math.pi / size)))
    first, second = windowed[X, Y], windowed[X + size // 2, Y]
    output[X, Y] = (first + second, first - second)
    output.set_estimates([(0, size // 2), (0, rows)])
    return hl.Pipeline(output)
