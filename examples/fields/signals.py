"""Signals and statistics: filters, transforms and scans along time, and sums, tables and extremes over samples."""

import functools
import math
from collections.abc import Callable, Mapping

import halide as hl

X, Y, C, N = (hl.Var(name) for name in "xycn")


def _image(*sizes: int, name: str, pixel: hl.Type | None = None) -> hl.ImageParam:
    """Return an input with its estimated sizes."""
    param = hl.ImageParam(pixel or hl.Float(32), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def _split(func: hl.Func, var: hl.Var, factor: int) -> tuple[hl.Var, hl.Var]:
    """Let tasks compute so many of a dimension each; the loops over tasks, and in a task."""
    task, inner = hl.Var("task"), hl.Var("inner")
    func.split(var, task, inner, factor).parallel(task)
    return task, inner


def _in_parts(func: hl.Func, term: hl.RVar, factor: int) -> tuple[hl.Func, hl.Var, hl.RVar]:
    """Let tasks add up so many terms each; the Func of their sums, the loop over tasks and that over their terms."""
    outer, inner, part = hl.RVar("outer"), hl.RVar("inner"), hl.Var("part")
    partial = func.update().split(term, outer, inner, factor).rfactor(outer, part)
    partial.compute_root().parallel(part).update().parallel(part)
    return partial, part, inner


def biquad_cascade(channels: int = 256, samples: int = 2048) -> hl.Pipeline:
    """Return two sections of a recursive filter after each other, of many interleaved channels."""
    signal, coefficients = _image(channels, samples, name="signal"), _image(5, 2, name="coefficients")
    gain, output = hl.Param(hl.Float(32), "gain", 0.5), hl.Func("biquad_cascade")
    gain.set_estimate(0.5)
    source: hl.ImageParam | hl.Func = signal
    for number, name in enumerate(("first_section", "second_section")):
        section, time = hl.Func(name), hl.RDom([(2, samples - 2)], f"time_{number}")
        forward, back = ([coefficients[i, number] for i in numbers] for numbers in ((0, 1, 2), (3, 4)))
        half = hl.f32(0.5)  # of a feedback below one, so that it is stable
        taps = (forward[i] * source[C, hl.clamp(X - i, 0, samples - 1)] for i in range(3))
        section[C, X] = functools.reduce(lambda total, tap: total + tap, taps)
        section[C, time.x] += half * back[0] * section[C, time.x - 1] + half * back[1] * section[C, time.x - 2]
        source = section
    output[C, X] = gain * source[C, hl.clamp(X, 0, samples - 1)]
    output.set_estimates([(0, channels), (0, samples)])
    return hl.Pipeline(output)


def _biquad_cascade(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["biquad_cascade"]
    channel, time = output.args()
    task, inner = _split(output, channel, 64)
    output.reorder(inner, time, task).vectorize(inner, lanes).unroll(inner)
    for name in ("first_section", "second_section"):
        section = f[name]
        (step,) = section.rvars(0)
        section.compute_at(output, task).vectorize(channel, lanes).unroll(channel)
        section.update().reorder(channel, step).vectorize(channel, lanes).unroll(channel)


def crc_rows(width: int = 1500, rows: int = 2048) -> hl.Pipeline:
    """Return the CRC32 of each row of bytes, by a table of 256 entries."""
    source = _image(width, rows, name="source", pixel=hl.UInt(8))
    table, register, output = (hl.Func(name) for name in ("table", "register", "crc_rows"))
    value = hl.u32(X)
    for _ in range(8):
        value = hl.select(value & 1 == 1, (value >> 1) ^ hl.u32(0xEDB88320), value >> 1)
    table[X] = value
    k = hl.RDom([(0, width)], "k")
    register[Y] = hl.u32(0xFFFFFFFF)
    register[Y] = table[hl.i32(hl.u8(register[Y]) ^ source[k.x, Y])] ^ (register[Y] >> 8)
    output[Y] = ~register[Y]
    output.set_estimates([(0, rows)])
    return hl.Pipeline(output)


def _crc_rows(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, register = f["crc_rows"], f["register"]
    task, _ = _split(output, output.args()[0], 32)
    (row,), (k,) = register.args(), register.rvars(0)
    f["table"].compute_root().vectorize(*f["table"].args(), lanes)
    register.compute_at(output, task).unroll(row)
    register.update().reorder(row, k).unroll(row)


def fir_64(samples: int = 131072, channels: int = 8, taps: int = 64) -> hl.Pipeline:
    """Return a filter of 64 taps of several channels of sound, each a row."""
    signal, weights = _image(samples + taps - 1, channels, name="signal"), _image(taps, name="weights")
    output, k = hl.Func("fir_64"), hl.RDom([(0, taps)], "k")
    output[X, C] = hl.f32(0)
    output[X, C] += weights[k.x] * signal[X + k.x, C]
    output.set_estimates([(0, samples), (0, channels)])
    return hl.Pipeline(output)


def _fir_64(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["fir_64"]
    (k,) = output.rvars(0)
    x, c = output.args()
    block, inner = hl.Var("block"), hl.Var("inner")
    output.parallel(c).vectorize(x, lanes)
    update = output.update().split(x, block, inner, 8 * lanes, hl.TailStrategy.GuardWithIf).reorder(inner, k, block, c)
    update.vectorize(inner, lanes).unroll(inner).parallel(c)


def windowed_dct(frames: int = 2048, size: int = 256, hop: int = 128, bins: int = 64) -> hl.Pipeline:
    """Return 64 cosine coefficients of each frame of a signal: frames of 256 samples, 128 apart, under a window."""
    signal = _image((frames - 1) * hop + size, name="signal")
    window, windowed, cosine, output = (hl.Func(name) for name in ("window", "windowed", "cosine", "windowed_dct"))
    n = hl.RDom([(0, size)], "n")
    window[X] = hl.f32(0.5) - hl.f32(0.5) * hl.cos((hl.f32(X) + hl.f32(0.5)) * hl.f32(2 * math.pi / size))
    windowed[X, Y] = signal[Y * hop + X] * window[X]
    cosine[C, X] = hl.cos((hl.f32(X) + hl.f32(0.5)) * hl.f32(C) * hl.f32(math.pi / size))
    output[C, Y] = hl.f32(0)
    output[C, Y] += cosine[C, n.x] * windowed[n.x, Y]
    output.set_estimates([(0, bins), (0, frames)])
    return hl.Pipeline(output)


def _windowed_dct(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, windowed, cosine, window = (f[name] for name in ("windowed_dct", "windowed", "cosine", "window"))
    c, y = output.args()
    (n,) = output.rvars(0)
    ci, yi, task, frame = (hl.Var(name) for name in ("ci", "yi", "task", "frame"))
    cosine.compute_root().vectorize(cosine.args()[0], lanes).parallel(cosine.args()[1])
    window.compute_root().vectorize(*window.args(), lanes)
    output.split(y, task, frame, 32).vectorize(c, lanes).parallel(task)
    update = output.update().split(y, task, frame, 32).tile(c, frame, ci, yi, 4 * lanes, 4)
    update.reorder(ci, yi, n, c, frame, task).vectorize(ci, lanes).unroll(ci).unroll(yi).parallel(task)
    windowed.compute_at(output, task).vectorize(windowed.args()[0], lanes)


def histogram2d(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return the joint histogram of two images of bytes, of 64 by 64 bins, as shares of all pixels."""
    first, second = (_image(width, height, name=name, pixel=hl.UInt(8)) for name in ("first", "second"))
    counts, output = hl.Func("counts"), hl.Func("histogram2d")
    r = hl.RDom([(0, width), (0, height)], "r")
    counts[X, Y] = hl.i32(0)
    counts[hl.i32(first[r.x, r.y] >> 2), hl.i32(second[r.x, r.y] >> 2)] += 1
    output[X, Y] = hl.f32(counts[X, Y]) * hl.f32(1 / (width * height))
    output.set_estimates([(0, 64), (0, 64)])
    return hl.Pipeline(output)


def _histogram2d(f: Mapping[str, hl.Func], lanes: int) -> None:
    counts = f["counts"]
    x, y = counts.args()
    column, row = counts.rvars(0)
    partial, _, _ = _in_parts(counts, row, 270)
    partial.vectorize(x, lanes).update().unroll(column, 8)
    counts.compute_root().vectorize(x, lanes)
    counts.update().reorder(x, *counts.rvars(0), y).vectorize(x, lanes)
    f["histogram2d"].vectorize(x, lanes)


def autocorrelation(size: int = 1024, rows: int = 1024, lags: int = 64) -> hl.Pipeline:
    """Return how rows of a signal correlate with themselves some samples later, as a share of their energy."""
    source = _image(size, rows, name="source")
    padded, products, output = hl.Func("padded"), hl.Func("products"), hl.Func("autocorrelation")
    n = hl.RDom([(0, size)], "n")
    padded[X, Y] = hl.select(size > X, source[hl.clamp(X, 0, size - 1), Y], hl.f32(0))
    products[C, Y] = hl.f32(0)
    products[C, Y] += padded[n.x, Y] * padded[n.x + C, Y]
    output[C, Y] = products[C, Y] / hl.max(products[0, Y], hl.f32(1e-6))
    output.set_estimates([(0, lags), (0, rows)])
    return hl.Pipeline(output)


def _autocorrelation(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, products, padded = f["autocorrelation"], f["products"], f["padded"]
    lag, y = output.args()
    (n,) = products.rvars(0)
    output.vectorize(lag, lanes).parallel(y)
    padded.compute_at(output, y).vectorize(padded.args()[0], lanes)
    products.compute_at(output, y).vectorize(lag, lanes)
    # Steps of a vector's length share what they load: the neighbour's second vector is the own third.
    block, inner, step, phase = hl.Var("block"), hl.Var("inner"), hl.RVar("step"), hl.RVar("phase")
    update = products.update().split(lag, block, inner, 4 * lanes).split(n, step, phase, lanes)
    update.reorder(inner, step, phase, block).vectorize(inner, lanes).unroll(inner).unroll(step, 4)


def argmax_rows(columns: int = 1024, rows: int = 4096) -> hl.Pipeline:
    """Return the greatest number of each row of a matrix, and where it is (the last of equals), as a Tuple."""
    matrix, best = _image(columns, rows, name="matrix", pixel=hl.Int(32)), hl.Func("argmax_rows")
    k = hl.RDom([(0, columns)], "k")
    value = matrix[k.x, Y]
    best[Y] = (hl.Int(32).min(), hl.i32(0))
    best[Y] = (hl.max(best[Y][0], value), hl.select(best[Y][0] > value, best[Y][1], k.x))
    best.set_estimates([(0, rows)])
    return hl.Pipeline(best)


def _argmax_rows(f: Mapping[str, hl.Func], lanes: int) -> None:
    best = f["argmax_rows"]
    (k,), (y,) = best.rvars(0), best.args()
    # Lanes along a row would find another of equals than the last.
    block, row = hl.Var("block"), hl.Var("row")
    _split(best, y, 256)
    rows = best.update().split(y, block, row, 8, hl.TailStrategy.GuardWithIf).reorder(row, k, block)
    rows.unroll(row).parallel(block, 32)


def median_of_five(samples: int = 524288, channels: int = 8) -> hl.Pipeline:
    """Return the median of five samples in a row, of several channels of whole numbers."""
    signal, output = _image(samples + 4, channels, name="signal", pixel=hl.Int(16)), hl.Func("median_of_five")
    a, b, c, d, e = (signal[X + i, C] for i in range(5))
    lower = hl.max(hl.min(a, b), hl.min(d, e))
    upper = hl.min(hl.max(a, b), hl.max(d, e))
    output[X, C] = hl.max(hl.min(lower, upper), hl.min(hl.max(lower, upper), c))
    output.set_estimates([(0, samples), (0, channels)])
    return hl.Pipeline(output)


def _median_of_five(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["median_of_five"]
    x, c = output.args()
    output.vectorize(x, 2 * lanes).parallel(c)


def covariance(features: int = 32, samples: int = 65536) -> hl.Pipeline:
    """Return how much each two features vary together, of many samples of bytes less their rounded means."""
    data = _image(features, samples, name="data", pixel=hl.UInt(8))
    total, centred, products, output = (hl.Func(name) for name in ("total", "centred", "products", "covariance"))
    k, n = hl.RDom([(0, samples)], "k"), hl.RDom([(0, samples)], "n")
    total[X] = hl.i32(0)
    total[X] += hl.i32(data[X, k.x])
    centred[X, N] = hl.i16(data[X, N]) - hl.i16((total[X] + samples // 2) // samples)
    products[X, Y] = hl.i32(0)
    products[X, Y] += hl.i32(centred[X, n.x]) * hl.i32(centred[Y, n.x])
    output[X, Y] = hl.f32(products[X, Y]) * hl.f32(1 / (samples - 1))
    output.set_estimates([(0, features), (0, features)])
    return hl.Pipeline(output)


def _covariance(f: Mapping[str, hl.Func], lanes: int) -> None:
    total, products, centred = f["total"], f["products"], f["centred"]
    (x,), (k,) = total.args(), total.rvars(0)
    partial, part, inner = _in_parts(total, k, 2048)
    partial.vectorize(x, lanes).update().reorder(x, inner, part).vectorize(x, lanes)
    total.compute_root().vectorize(x, lanes).update().vectorize(x, lanes)
    x, y = products.args()
    partial, part, sample = _in_parts(products, products.rvars(0)[0], 4096)
    chunk, block, lane, pair = (hl.RVar(name) for name in ("chunk", "block", "lane", "pair"))
    vector, xi, yi = hl.Var("vector"), hl.Var("xi"), hl.Var("yi")
    # A vector has the sums of two features at some samples, two of which an instruction multiplies and adds.
    update = partial.update().split(sample, chunk, sample, 512).split(sample, block, sample, 2 * lanes)
    sums = update.split(sample, lane, pair, 2).rfactor(lane, vector)
    sums.compute_at(partial, part).reorder_storage(vector, x, y, part).reorder(vector, x, y).vectorize(vector, lanes)
    update = sums.update().tile(x, y, xi, yi, 4, 4).reorder(pair, vector, xi, yi, block, x, y, chunk, part)
    update.unroll(xi).unroll(yi).atomic().vectorize(pair).vectorize(vector, lanes)
    feature, n = centred.args()
    fi, ni = hl.Var("fi"), hl.Var("ni")
    centred.compute_at(sums, chunk).reorder_storage(n, feature).tile(feature, n, fi, ni, 16, 16)
    centred.reorder(ni, fi, feature, n).vectorize(ni).unroll(fi)
    partial.vectorize(x, lanes).update().reorder(lane, x, y, part).atomic().vectorize(lane)
    products.compute_root().vectorize(x, lanes).update().vectorize(x, lanes)
    f["covariance"].vectorize(x, lanes)


def zscore_columns(features: int = 200, samples: int = 16384) -> hl.Pipeline:
    """Return bytes less the mean of their column, by its standard deviation."""
    data = _image(features, samples, name="data", pixel=hl.UInt(8))
    moments, scale, output = hl.Func("moments"), hl.Func("scale"), hl.Func("zscore_columns")
    k, count, sums = hl.RDom([(0, samples)], "k"), hl.f32(samples), moments[X]
    value = hl.i32(data[X, k.x])
    moments[X] = (hl.i32(0), hl.i32(0))
    moments[X] = (sums[0] + value, sums[1] + value * value)
    variance = hl.f32(sums[1]) * count - hl.f32(sums[0]) * hl.f32(sums[0])
    scale[X] = hl.f32(1) / hl.sqrt(hl.max(variance, hl.f32(1)))
    output[X, N] = hl.f32(hl.i32(data[X, N]) * samples - sums[0]) * scale[X]
    output.set_estimates([(0, features), (0, samples)])
    return hl.Pipeline(output)


def _zscore_columns(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, moments, scale = f["zscore_columns"], f["moments"], f["scale"]
    x, sample = output.args()
    partial, part, inner = _in_parts(moments, moments.rvars(0)[0], 512)
    partial.vectorize(x, lanes).update().reorder(x, inner, part).vectorize(x, lanes, hl.TailStrategy.GuardWithIf)
    moments.compute_root().vectorize(x, lanes).update().vectorize(x, lanes)
    scale.compute_root().vectorize(x, lanes)
    _split(output, sample, 128)
    output.vectorize(x, lanes)


def k_means_assign(points: int = 131072, features: int = 8, centroids: int = 16) -> hl.Pipeline:
    """Return the number of the nearest of 16 centroids, of points of eight bytes; the first of those as near."""
    data = _image(features, points, name="data", pixel=hl.UInt(8))
    centers = _image(features, centroids, name="centers", pixel=hl.UInt(8))
    data.dim(0).set_bounds(0, features)
    data.dim(1).set_stride(features)
    distance, nearest, output = hl.Func("distance"), hl.Func("nearest"), hl.Func("k_means_assign")
    feature, k = hl.RDom([(0, features)], "feature"), hl.RDom([(0, centroids)], "k")
    step = hl.u16(hl.absd(data[feature.x, N], centers[feature.x, C]))
    distance[C, N] = hl.i32(0)
    distance[C, N] += hl.i32(step * step)
    nearest[N] = hl.Int(32).max()
    nearest[N] = hl.min(nearest[N], distance[k.x, N] * centroids + k.x)
    output[N] = hl.u8(nearest[N] % centroids)
    output.set_estimates([(0, points)])
    return hl.Pipeline(output)


def _k_means_assign(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, nearest, distance = f["k_means_assign"], f["nearest"], f["distance"]
    (n,), (k,), (feature,) = output.args(), nearest.rvars(0), distance.rvars(0)
    block = hl.Var("block")
    _, inner = _split(output, n, 2048)
    output.split(inner, block, inner, lanes).vectorize(inner)
    nearest.compute_at(output, block).vectorize(n, lanes).update().reorder(n, k).vectorize(n, lanes)
    # A vector has all features of some points, as they lie in memory.
    distance.compute_at(nearest, k).vectorize(n, lanes).update().reorder(feature, n).atomic()
    distance.update().vectorize(feature).vectorize(n, lanes)


def colour_statistics(blocks_x: int = 120, blocks_y: int = 67, side: int = 16) -> hl.Pipeline:
    """Return the mean hue, saturation and brightness of blocks of 16 by 16 pixels, of planes of bytes."""
    source = _image(blocks_x * side, blocks_y * side, 3, name="source", pixel=hl.UInt(8))
    colour, sums, output = hl.Func("colour"), hl.Func("sums"), hl.Func("colour_statistics")
    r = hl.RDom([(0, side), (0, side)], "r")
    red, green, blue = (hl.f32(source[X, Y, channel]) for channel in range(3))
    greatest, least = hl.max(hl.max(red, green), blue), hl.min(hl.min(red, green), blue)
    scale = hl.f32(1) / hl.max(greatest - least, hl.f32(1))
    of_red = (green - blue) * scale + hl.select(green < blue, hl.f32(6), hl.f32(0))
    of_others = hl.select(greatest == green, (blue - red) * scale + 2, (red - green) * scale + 4)
    hue = hl.select(greatest == red, of_red, of_others)
    colour[X, Y] = (hue, (greatest - least) / hl.max(greatest, hl.f32(1)), greatest)
    here, values = sums[X, Y], colour[side * X + r.x, side * Y + r.y]
    sums[X, Y] = (hl.f32(0), hl.f32(0), hl.f32(0))
    sums[X, Y] = tuple(here[i] + values[i] for i in range(3))
    output[C, X, Y] = hl.mux(C, [sums[X, Y][i] for i in range(3)]) * hl.f32(1 / side**2)
    output.set_estimates([(0, 3), (0, blocks_x), (0, blocks_y)])
    return hl.Pipeline(output)


def _colour_statistics(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, sums = f["colour_statistics"], f["sums"]
    c, x, y = output.args()
    output.bound(c, 0, 3).unroll(c).parallel(y)
    rx, ry = sums.rvars(0)
    lane = hl.Var("lane")
    sums.compute_at(output, x)
    outer, inner = hl.RVar("outer"), hl.RVar("inner")
    partial = sums.update().split(rx, outer, inner, lanes).rfactor(inner, lane)
    partial.compute_at(output, x).vectorize(lane, lanes)
    partial.update().reorder(lane, outer, ry).vectorize(lane, lanes).unroll(outer)


def delta_decode(width: int = 2000, rows: int = 1024) -> hl.Pipeline:
    """Return rows of numbers of which differences are stored, unsigned with the sign in the lowest bit, to scale."""
    source = _image(width, rows, name="source", pixel=hl.UInt(16))
    step = hl.Param(hl.Float(32), "step", 0.25)
    step.set_estimate(0.25)
    delta, value, output = hl.Func("delta"), hl.Func("value"), hl.Func("delta_decode")
    r = hl.RDom([(1, width - 1)], "r")
    code = hl.i32(source[hl.clamp(X, 0, width - 1), Y])
    delta[X, Y] = (code >> 1) ^ -(code & 1)
    value[X, Y] = delta[X, Y]
    value[r.x, Y] += value[r.x - 1, Y]
    output[X, Y] = hl.f32(value[X, Y]) * step
    output.set_estimates([(0, width), (0, rows)])
    return hl.Pipeline(output)


def _delta_decode(f: Mapping[str, hl.Func], lanes: int) -> None:
    # A vector has the sums of eight rows, at any width of vectors; they turn on the way in and out.
    output, value = f["delta_decode"], f["value"]
    x, y = output.args()
    (step,) = value.rvars(0)
    column = hl.Var("column")
    rows = 8
    task, row = _split(output, y, rows)
    output.split(x, x, column, rows).reorder(column, row, x, task).vectorize(column).unroll(row)
    value.compute_at(output, task).reorder_storage(y, x)
    value.split(x, x, column, rows).reorder(column, y, x).vectorize(column).unroll(y)
    value.update().reorder(y, step).vectorize(y, rows)


SCHEDULES: dict[str, Callable[[Mapping[str, hl.Func], int], None]] = {
    "biquad_cascade": _biquad_cascade,
    "crc_rows": _crc_rows,
    "fir_64": _fir_64,
    "windowed_dct": _windowed_dct,
    "histogram2d": _histogram2d,
    "autocorrelation": _autocorrelation,
    "argmax_rows": _argmax_rows,
    "median_of_five": _median_of_five,
    "covariance": _covariance,
    "zscore_columns": _zscore_columns,
    "k_means_assign": _k_means_assign,
    "colour_statistics": _colour_statistics,
    "delta_decode": _delta_decode,
}
