"""Layers of neural networks: products of matrices, convolutions, norms, softmax and pooling, of floats and of bytes."""

from collections.abc import Callable, Mapping

import halide as hl

C, X, Y, N = (hl.Var(name) for name in "cxyn")


def _image(*sizes: int, name: str, pixel: hl.Type | None = None) -> hl.ImageParam:
    """Return an input with its estimated sizes."""
    param = hl.ImageParam(pixel or hl.Float(32), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def _setting(name: str, value: int) -> hl.Param:
    """Return a whole number that callers may set."""
    param = hl.Param(hl.Int(32), name, value)
    param.set_estimate(value)
    return param


def _requantized(sums: hl.Expr, multiplier: int, shift: int) -> hl.Expr:
    """Return sums as bytes: times a fraction of 31 bits, shifted, and moved to the zero point of the output."""
    share = hl.rounding_mul_shift_right(sums, _setting("multiplier", multiplier), hl.u32(31))
    shifted = hl.rounding_shift_right(share, _setting("shift", shift))
    return hl.u8(hl.clamp(shifted + _setting("zero_point", 128), 0, 255))


def quantized_matmul(rows: int = 512, columns: int = 512, depth: int = 512) -> hl.Pipeline:
    """Return bytes times signed bytes, each row with each row of weights, and a bias, back to bytes by fixed point."""
    activations = _image(depth, rows, name="activations", pixel=hl.UInt(8))
    weights = _image(depth, columns, name="weights", pixel=hl.Int(8))
    bias = _image(columns, name="bias", pixel=hl.Int(16))
    products, output = hl.Func("products"), hl.Func("quantized_matmul")
    k = hl.RDom([(0, depth)], "k")
    products[X, Y] = hl.i32(0)
    products[X, Y] += hl.i32(activations[k.x, Y]) * hl.i32(weights[k.x, X])
    output[X, Y] = _requantized(products[X, Y] + hl.i32(bias[X]), 1540000000, 12)
    output.set_estimates([(0, columns), (0, rows)])
    return hl.Pipeline(output)


def depthwise5x5_bytes(channels: int = 128, side: int = 112) -> hl.Pipeline:
    """Return each channel of bytes, innermost, by a filter of 5 by 5 signed bytes of its own, and back to bytes."""
    source = _image(channels, side + 4, side + 4, name="source", pixel=hl.UInt(8))
    weights = _image(channels, 5, 5, name="weights", pixel=hl.Int(8))
    bias = _image(channels, name="bias", pixel=hl.Int(16))
    filtered, output = hl.Func("filtered"), hl.Func("depthwise5x5_bytes")
    tap = hl.RDom([(0, 5), (0, 5)], "tap")
    filtered[C, X, Y] = hl.i32(bias[C])
    filtered[C, X, Y] += hl.i32(source[C, X + tap.x, Y + tap.y]) * hl.i32(weights[C, tap.x, tap.y])
    output[C, X, Y] = _requantized(filtered[C, X, Y], 1300000000, 9)
    output.set_estimates([(0, channels), (0, side), (0, side)])
    return hl.Pipeline(output)


def conv3x3_stride2(side: int = 112, channels_in: int = 16, channels_out: int = 32) -> hl.Pipeline:
    """Return a convolution by 3 by 3 of every second pixel along both sides, rectified, channels innermost."""
    source = _image(channels_in, 2 * side + 1, 2 * side + 1, name="source")
    weights, bias = _image(channels_out, 3, 3, channels_in, name="weights"), _image(channels_out, name="bias")
    convolved, output = hl.Func("convolved"), hl.Func("conv3x3_stride2")
    k = hl.RDom([(0, channels_in), (0, 3), (0, 3)], "k")
    convolved[C, X, Y] = bias[C]
    convolved[C, X, Y] += source[k.x, 2 * X + k.y, 2 * Y + k.z] * weights[C, k.y, k.z, k.x]
    output[C, X, Y] = hl.max(convolved[C, X, Y], hl.f32(0))
    output.set_estimates([(0, channels_out), (0, side), (0, side)])
    return hl.Pipeline(output)


def transposed_conv(side: int = 256, channels_in: int = 64, channels_out: int = 32) -> hl.Pipeline:
    """Return an image of twice the size: each pixel becomes 2 by 2, as on the way up of a U-Net, channels innermost."""
    source = _image(channels_in, side // 2, side // 2, name="source")
    weights = _image(channels_out, channels_in, 2, 2, name="weights")
    bias = _image(channels_out, name="bias")
    spread, output = hl.Func("spread"), hl.Func("transposed_conv")
    k = hl.RDom([(0, channels_in)], "k")
    spread[C, X, Y] = hl.f32(0)
    spread[C, X, Y] += source[k.x, X // 2, Y // 2] * weights[C, k.x, X % 2, Y % 2]
    output[C, X, Y] = hl.max(spread[C, X, Y] + bias[C], hl.f32(0))
    output.set_estimates([(0, channels_out), (0, side), (0, side)])
    return hl.Pipeline(output)


def softmax_rows(classes: int = 1000, rows: int = 2048) -> hl.Pipeline:
    """Return the softmax of each row, whose largest value is subtracted first."""
    logits, largest, power, total = _image(classes, rows, name="logits"), *map(hl.Func, ("largest", "power", "total"))
    output = hl.Func("softmax_rows")
    k, j = hl.RDom([(0, classes)], "k"), hl.RDom([(0, classes)], "j")
    largest[Y] = hl.Float(32).min()
    largest[Y] = hl.max(largest[Y], logits[k.x, Y])
    power[X, Y] = hl.exp(logits[X, Y] - largest[Y])
    total[Y] = hl.f32(0)
    total[Y] += power[j.x, Y]
    output[X, Y] = power[X, Y] / total[Y]
    output.set_estimates([(0, classes), (0, rows)])
    return hl.Pipeline(output)


def group_norm(side: int = 32, channels: int = 256, images: int = 4, group: int = 8) -> hl.Pipeline:
    """Return planes, normalized over groups of channels, with a scale and an offset of each channel."""
    source = _image(side, side, channels, images, name="source")
    scale, offset = _image(channels, name="scale"), _image(channels, name="offset")
    totals, moments, factors, output = map(hl.Func, ("totals", "moments", "factors", "group_norm"))
    pixel, member = hl.RDom([(0, side), (0, side)], "pixel"), hl.RDom([(0, group)], "member")
    value = source[pixel.x, pixel.y, C, N]
    totals[C, N] = (hl.f32(0), hl.f32(0))
    totals[C, N] = (totals[C, N][0] + value, totals[C, N][1] + value * value)
    of_member = totals[C * group + member.x, N]
    moments[C, N] = (hl.f32(0), hl.f32(0))
    moments[C, N] = (moments[C, N][0] + of_member[0], moments[C, N][1] + of_member[1])
    share = hl.f32(1 / (side * side * group))
    mean, square = (moments[C // group, N][part] * share for part in range(2))
    slope = scale[C] / hl.sqrt(square - mean * mean + hl.f32(1e-5))
    factors[C, N] = (slope, offset[C] - mean * slope)
    output[X, Y, C, N] = source[X, Y, C, N] * factors[C, N][0] + factors[C, N][1]
    output.set_estimates([(0, side), (0, side), (0, channels), (0, images)])
    return hl.Pipeline(output)


def gelu_mlp_layer(rows: int = 256, columns: int = 1024, depth: int = 256) -> hl.Pipeline:
    """Return a dense layer with a bias and the tanh approximation of GELU: x / (1 + exp(-2z)) is x (1 + tanh z) / 2."""
    tokens, weights = _image(depth, rows, name="tokens"), _image(columns, depth, name="weights")
    bias = _image(columns, name="bias")
    products, hidden, output = hl.Func("products"), hl.Func("hidden"), hl.Func("gelu_mlp_layer")
    k = hl.RDom([(0, depth)], "k")
    products[X, Y] = hl.f32(0)
    products[X, Y] += tokens[k.x, Y] * weights[X, k.x]
    hidden[X, Y] = products[X, Y] + bias[X]
    value = hidden[X, Y]
    angle = hl.f32(0.7978845608) * (value + hl.f32(0.044715) * value * value * value)
    output[X, Y] = value / (hl.f32(1) + hl.exp(hl.f32(-2) * angle))
    output.set_estimates([(0, columns), (0, rows)])
    return hl.Pipeline(output)


def attention_scores(tokens: int = 256, features: int = 64, heads: int = 8) -> hl.Pipeline:
    """Return how much each token attends to each other one: the softmax of scaled products of queries and keys."""
    queries, keys = (_image(features, tokens, heads, name=name) for name in ("queries", "keys"))
    turned, scores, largest = hl.Func("turned"), hl.Func("scores"), hl.Func("largest")
    power, total, output = hl.Func("power"), hl.Func("total"), hl.Func("attention_scores")
    feature = hl.RDom([(0, features)], "feature")
    k, j = hl.RDom([(0, tokens)], "k"), hl.RDom([(0, tokens)], "j")
    turned[X, Y, N] = keys[Y, X, N]
    scores[X, Y, N] = hl.f32(0)
    scores[X, Y, N] += queries[feature.x, Y, N] * turned[X, feature.x, N]
    largest[Y, N] = hl.Float(32).min()
    largest[Y, N] = hl.max(largest[Y, N], scores[k.x, Y, N])
    power[X, Y, N] = hl.exp((scores[X, Y, N] - largest[Y, N]) * hl.f32(features**-0.5))
    total[Y, N] = hl.f32(0)
    total[Y, N] += power[j.x, Y, N]
    output[X, Y, N] = power[X, Y, N] / total[Y, N]
    output.set_estimates([(0, tokens), (0, tokens), (0, heads)])
    return hl.Pipeline(output)


def embedding_mean(features: int = 128, rows: int = 4096, words: int = 16, entries: int = 40000) -> hl.Pipeline:
    """Return the mean of the rows of a table that belong to the words of each text, by their numbers."""
    table = _image(features, entries, name="table")
    numbers = _image(words, rows, name="numbers", pixel=hl.UInt(16))
    place, summed, output = hl.Func("place"), hl.Func("summed"), hl.Func("embedding_mean")
    word = hl.RDom([(0, words)], "word")
    place[X, Y] = hl.clamp(hl.i32(numbers[X, Y]), 0, entries - 1)
    summed[C, Y] = hl.f32(0)
    summed[C, Y] += table[C, place[word.x, Y]]
    output[C, Y] = summed[C, Y] * hl.f32(1 / words)
    output.set_estimates([(0, features), (0, rows)])
    return hl.Pipeline(output)


def pooled_dense(classes: int = 128, channels: int = 512, side: int = 7, images: int = 128) -> hl.Pipeline:
    """Return the mean of each plane of each image, then a dense layer, whose weights of a class lie side by side."""
    source = _image(side, side, channels, images, name="source")
    weights, bias = _image(channels, classes, name="weights"), _image(classes, name="bias")
    pooled, scores, output = hl.Func("pooled"), hl.Func("scores"), hl.Func("pooled_dense")
    pixel, k = hl.RDom([(0, side), (0, side)], "pixel"), hl.RDom([(0, channels)], "k")
    pooled[C, N] = hl.f32(0)
    pooled[C, N] += source[pixel.x, pixel.y, C, N]
    scores[X, N] = hl.f32(0)
    scores[X, N] += weights[k.x, X] * (pooled[k.x, N] * hl.f32(1 / side**2))
    output[X, N] = scores[X, N] + bias[X]
    output.set_estimates([(0, classes), (0, images)])
    return hl.Pipeline(output)


def batch_norm_residual(channels: int = 64, side: int = 56, images: int = 8) -> hl.Pipeline:
    """Return a batch norm with known moments, plus what goes past the block, rectified, channels innermost."""
    source, shortcut = (_image(channels, side, side, images, name=name) for name in ("source", "shortcut"))
    names = "mean", "variance", "scale", "offset"
    mean, variance, scale, offset = (_image(channels, name=name) for name in names)
    slope, shift, output = hl.Func("slope"), hl.Func("shift"), hl.Func("batch_norm_residual")
    slope[C] = scale[C] / hl.sqrt(variance[C] + hl.f32(1e-3))
    shift[C] = offset[C] - mean[C] * slope[C]
    value = source[C, X, Y, N] * slope[C] + shift[C] + shortcut[C, X, Y, N]
    output[C, X, Y, N] = hl.max(value, hl.f32(0))
    output.set_estimates([(0, channels), (0, side), (0, side), (0, images)])
    return hl.Pipeline(output)


def dilated_causal_conv(times: int = 4096, channels: int = 64, taps: int = 3, dilation: int = 8) -> hl.Pipeline:
    """Return a convolution of signals with what is before, several steps apart, rectified and added to the signals."""
    source = _image(times, channels, name="source")
    weights, bias = _image(taps, channels, channels, name="weights"), _image(channels, name="bias")
    padded, convolved, output = hl.Func("padded"), hl.Func("convolved"), hl.Func("dilated_causal_conv")
    k = hl.RDom([(0, taps), (0, channels)], "k")
    silent = hl.BoundaryConditions.constant_exterior(source, hl.f32(0), [(0, times), (hl.Expr(), hl.Expr())])
    padded[X, C] = silent[X, C]
    convolved[X, C] = bias[C]
    convolved[X, C] += padded[X - dilation * (taps - 1 - k.x), k.y] * weights[k.x, k.y, C]
    output[X, C] = hl.max(convolved[X, C], hl.f32(0)) + source[X, C]
    output.set_estimates([(0, times), (0, channels)])
    return hl.Pipeline(output)


def _in_registers(func: hl.Func, consumer: hl.Func, at: hl.Var, lanes: int) -> None:
    """Compute a tile of sums, vectors along the first dimension, that stays in registers until it is complete."""
    vectors, points, *_ = func.args()
    func.compute_at(consumer, at).vectorize(vectors, lanes).unroll(vectors).unroll(points)
    update = func.update().reorder(vectors, points, *func.rvars(0))
    update.vectorize(vectors, lanes).unroll(vectors).unroll(points)


def _by_lanes(func: hl.Func, consumer: hl.Func, at: hl.Var, lanes: int, vectors: int) -> None:
    """Reduce a row to a number: first in each lane of several vectors, then across the lanes."""
    (k,) = func.rvars(0)
    block, place, lane = hl.RVar("block"), hl.RVar("place"), hl.Var("lane")
    partial = func.update().split(k, block, place, vectors * lanes).rfactor(place, lane)
    partial.compute_at(consumer, at).vectorize(lane, lanes).unroll(lane)
    partial.update().reorder(lane, block).vectorize(lane, lanes).unroll(lane)
    func.compute_at(consumer, at).update().atomic().vectorize(place)


def _quantized_matmul(f: Mapping[str, hl.Func], lanes: int) -> None:
    # Each lane sums a few neighbours of a row: a single instruction, of bytes in AVX-512 and of 16 bits before.
    output, products = f["quantized_matmul"], f["products"]
    rows, together = (4, 4) if lanes == 16 else (2, 2)
    x, y = output.args()
    xi, yi, task = hl.Var("xi"), hl.Var("yi"), hl.Var("task")
    output.tile(x, y, xi, yi, 64, rows).split(y, task, y, 16).reorder(xi, yi, y, x, task)
    output.vectorize(xi, lanes).unroll(yi).parallel(task)
    column, row = products.args()
    (k,) = products.rvars(0)
    block, place, lane, part = hl.RVar("block"), hl.RVar("place"), hl.RVar("lane"), hl.RVar("part")
    tile, each = hl.Var("tile"), hl.Var("each")
    update = products.update().split(k, block, place, together * lanes).split(place, lane, part, together)
    partial = update.rfactor(lane, each)
    products.compute_at(output, y).vectorize(column, lanes).unroll(row)
    update.split(column, tile, column, 4).reorder(lane, column, row, tile)
    update.unroll(row).atomic().vectorize(lane).vectorize(column)
    partial.compute_at(products, tile).reorder_storage(each, column, row).reorder(each, column, row)
    partial.vectorize(each).unroll(column).unroll(row)
    sums = partial.update().reorder(part, each, column, row, block)
    sums.atomic().vectorize(part).vectorize(each).unroll(column).unroll(row)


def _depthwise5x5_bytes(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, filtered = f["depthwise5x5_bytes"], f["filtered"]
    c, x, y = output.args()
    ci, xi = hl.Var("ci"), hl.Var("xi")
    output.split(c, c, ci, 2 * lanes).split(x, x, xi, 4).reorder(ci, xi, x, c, y)
    output.vectorize(ci).unroll(xi).parallel(y)
    _in_registers(filtered, output, x, 2 * lanes)
    along, across = filtered.rvars(0)
    filtered.update().unroll(along).unroll(across)


def _conv3x3_stride2(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["conv3x3_stride2"]
    c, x, y = output.args()
    ci, xi = hl.Var("ci"), hl.Var("xi")
    output.split(c, c, ci, 2 * lanes).split(x, x, xi, 8 if lanes == 16 else 6).reorder(ci, xi, c, x, y)
    output.vectorize(ci, lanes).unroll(ci).unroll(xi).parallel(y)
    _in_registers(f["convolved"], output, c, lanes)


def _transposed_conv(f: Mapping[str, hl.Func], lanes: int) -> None:
    # Pixels of the same side of their origins have the same weights.
    output, spread = f["transposed_conv"], f["spread"]
    c, x, y = output.args()
    ci, xi, side = hl.Var("ci"), hl.Var("xi"), hl.Var("side")
    output.split(c, c, ci, 2 * lanes).split(x, x, xi, 10 if lanes == 16 else 6).reorder(ci, xi, x, c, y)
    output.vectorize(ci, lanes).unroll(ci).unroll(xi).parallel(y)
    c, column, _ = spread.args()
    (k,) = spread.rvars(0)
    spread.compute_at(output, x).vectorize(c, lanes).unroll(c).unroll(column)
    update = spread.update().split(column, column, side, 2).reorder(c, column, side, k)
    update.vectorize(c, lanes).unroll(c).unroll(column).unroll(side)


def _softmax_rows(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, power = f["softmax_rows"], f["power"]
    x, y = output.args()
    row = hl.Var("row")
    output.split(y, y, row, 16).vectorize(x, lanes).parallel(y)
    for name in ("largest", "total"):
        _by_lanes(f[name], output, row, lanes, 2)
    power.compute_at(output, row).vectorize(power.args()[0], lanes)


def _group_norm(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, totals, moments = f["group_norm"], f["totals"], f["moments"]
    x, _, c, n = output.args()
    plane, lane = hl.Var("plane"), hl.Var("lane")
    output.fuse(c, n, plane).vectorize(x, lanes).parallel(plane, 8)
    f["factors"].compute_at(output, plane)
    channel, image = totals.args()
    along, down = totals.rvars(0)
    block, place = hl.RVar("block"), hl.RVar("place")
    partial = totals.update().split(along, block, place, lanes).rfactor(place, lane)
    totals.compute_root().parallel(image).update().parallel(image)
    partial.compute_at(totals, channel).vectorize(lane)
    partial.update().reorder(lane, block, down).vectorize(lane)
    moments.compute_root()


def _gelu_mlp_layer(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["gelu_mlp_layer"]
    width, height = (4 * lanes, 5) if lanes == 16 else (2 * lanes, 6)
    x, y = output.args()
    xi, yi, task = hl.Var("xi"), hl.Var("yi"), hl.Var("task")
    # The columns of the weights stay in the cache while a task goes over the rows.
    output.tile(x, y, xi, yi, width, height).split(x, task, x, 8).reorder(xi, yi, y, x, task)
    output.vectorize(xi, lanes).unroll(xi).unroll(yi).parallel(task)
    _in_registers(f["products"], output, y, lanes)


def _attention_scores(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, turned, scores, power = (f[name] for name in ("attention_scores", "turned", "scores", "power"))
    x, y, n = output.args()
    xi, yi, row = hl.Var("xi"), hl.Var("yi"), hl.Var("row")
    output.split(y, y, row, 6).vectorize(x, lanes).parallel(n)
    token, feature, _ = turned.args()
    turned.compute_at(output, n).tile(token, feature, xi, yi, lanes, lanes).vectorize(xi).unroll(yi)
    rows = scores.in_()
    x, y_in_rows, _ = rows.args()
    rows.compute_at(output, y).split(x, x, xi, (4 if lanes == 16 else 2) * lanes).reorder(xi, y_in_rows, x)
    rows.vectorize(xi, lanes).unroll(xi).unroll(y_in_rows)
    _in_registers(scores, rows, x, lanes)
    for name in ("largest", "total"):
        _by_lanes(f[name], output, row, lanes, 2)
    power.compute_at(output, row).vectorize(power.args()[0], lanes)


def _embedding_mean(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, summed = f["embedding_mean"], f["summed"]
    c, y = output.args()
    ci, row = hl.Var("ci"), hl.Var("row")
    output.split(c, c, ci, 8 * lanes).split(y, y, row, 16).reorder(ci, c, row, y)
    output.vectorize(ci, lanes).unroll(ci).parallel(y)
    feature, _ = summed.args()
    (word,) = summed.rvars(0)
    summed.compute_at(output, c).vectorize(feature, lanes).unroll(feature)
    summed.update().reorder(feature, word).vectorize(feature, lanes).unroll(feature)


def _pooled_dense(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, scores, pooled = f["pooled_dense"], f["scores"], f["pooled"]
    x, n = output.args()
    xi, ni, lane = hl.Var("xi"), hl.Var("ni"), hl.Var("lane")
    output.split(x, x, xi, 4).split(n, n, ni, 4).reorder(xi, ni, x, n).unroll(xi).unroll(ni).parallel(n)
    label, image = scores.args()
    (k,) = scores.rvars(0)
    block, place = hl.RVar("block"), hl.RVar("place")
    update = scores.update().split(k, block, place, lanes)
    partial = update.rfactor(place, lane)
    partial.compute_at(output, x).reorder_storage(lane, label, image).reorder(lane, label, image)
    partial.vectorize(lane).unroll(label).unroll(image)
    sums = partial.update().reorder(lane, label, image, block)
    sums.vectorize(lane).unroll(label).unroll(image)
    scores.compute_at(output, x).unroll(label).unroll(image)
    update.unroll(label).unroll(image).atomic().vectorize(place)
    # A plane is a few numbers side by side: a vector of each of its rows.
    channel, _ = pooled.args()
    along, down = pooled.rvars(0)
    column = hl.Var("column")
    rows = pooled.update().rfactor(along, column)
    pooled.compute_at(output, n).vectorize(channel, lanes).update().reorder(along, channel).atomic().vectorize(along)
    rows.compute_at(pooled, channel).vectorize(column).update().reorder(column, down).vectorize(column).unroll(down)


def _batch_norm_residual(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["batch_norm_residual"]
    c, _, y, n = output.args()
    row = hl.Var("row")
    output.fuse(y, n, row).vectorize(c, lanes).parallel(row)
    for name in ("slope", "shift"):
        f[name].compute_root().vectorize(f[name].args()[0], lanes)


def _dilated_causal_conv(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, padded = f["dilated_causal_conv"], f["padded"]
    x, c = output.args()
    xi, ci, task = hl.Var("xi"), hl.Var("ci"), hl.Var("task")
    output.tile(x, c, xi, ci, (4 if lanes == 16 else 2) * lanes, 6).split(x, task, x, 8).reorder(xi, ci, x, c, task)
    output.vectorize(xi, lanes).unroll(xi).unroll(ci).parallel(task)
    _in_registers(f["convolved"], output, x, lanes)
    padded.compute_at(output, task).vectorize(padded.args()[0], lanes)


SCHEDULES: dict[str, Callable[[Mapping[str, hl.Func], int], None]] = {
    "quantized_matmul": _quantized_matmul,
    "depthwise5x5_bytes": _depthwise5x5_bytes,
    "conv3x3_stride2": _conv3x3_stride2,
    "transposed_conv": _transposed_conv,
    "softmax_rows": _softmax_rows,
    "group_norm": _group_norm,
    "gelu_mlp_layer": _gelu_mlp_layer,
    "attention_scores": _attention_scores,
    "embedding_mean": _embedding_mean,
    "pooled_dense": _pooled_dense,
    "batch_norm_residual": _batch_norm_residual,
    "dilated_causal_conv": _dilated_causal_conv,
}
