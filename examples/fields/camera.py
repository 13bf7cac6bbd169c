"""Cameras and video: colours, blending, scaling, running sums, sharpening, motion and exposure, mostly of bytes."""

from collections.abc import Callable, Mapping

import halide as hl

X, Y, C, N = (hl.Var(name) for name in "xycn")


def _image(*sizes: int, name: str, pixel: hl.Type | None = None) -> hl.ImageParam:
    """Return an input with its estimated sizes, of bytes if not told."""
    param = hl.ImageParam(pixel or hl.UInt(8), len(sizes), name)
    param.set_estimates([(0, size) for size in sizes])
    return param


def _pipeline(output: hl.Func, *sizes: int) -> hl.Pipeline:
    """Return a pipeline of one output with its estimated sizes."""
    output.set_estimates([(0, size) for size in sizes])
    return hl.Pipeline(output)


def _clamped(image: hl.ImageParam, name: str) -> hl.Func:
    """Return an image whose border goes on without end along x and y."""
    clamped = hl.Func(name)
    x, y = (hl.clamp(hl.likely(side), image.dim(i).min(), image.dim(i).max()) for i, side in enumerate((X, Y)))
    rest = [C] * (image.dimensions() - 2)
    source_place, place = (x, y, *rest), (X, Y, *rest)
    clamped[place] = image[source_place]
    return clamped


def _byte(value: hl.Expr) -> hl.Expr:
    """Return a number as a byte, held within its range."""
    return hl.u8(hl.clamp(value, 0, 255))


def hwc_grey(width: int = 3840, height: int = 2160) -> hl.Pipeline:
    """Return the grey of interleaved RGB bytes."""
    source, output = _image(width, height, 3, name="source"), hl.Func("hwc_grey")
    source.dim(0).set_stride(3)
    source.dim(2).set_stride(1).set_bounds(0, 3)
    red, green, blue = (hl.u16(source[X, Y, channel]) for channel in range(3))
    output[X, Y] = hl.u8((77 * red + 150 * green + 29 * blue + 128) >> 8)
    return _pipeline(output, width, height)


def yuv420_to_rgb(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return the colours of video with chroma of half the size, all in planes of bytes (BT.601, limited range)."""
    luma = _image(width, height, name="luma")
    chroma_blue, chroma_red = (_image((width + 1) // 2, (height + 1) // 2, name=name) for name in ("blues", "reds"))
    output = hl.Func("yuv420_to_rgb")
    bright = 298 * (hl.i32(luma[X, Y]) - 16) + 128
    toward_blue, toward_red = (hl.i32(chroma[X // 2, Y // 2]) - 128 for chroma in (chroma_blue, chroma_red))
    red, blue = bright + 409 * toward_red, bright + 516 * toward_blue
    green = bright - 100 * toward_blue - 208 * toward_red
    output[X, Y, C] = _byte(hl.mux(C, [red, green, blue]) >> 8)
    return _pipeline(output, width, height, 3)


def premultiplied_over(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return one image over another, of four interleaved bytes, colours multiplied by the alpha in the last."""
    above, below = (_image(4, width, height, name=name) for name in ("above", "below"))
    output = hl.Func("premultiplied_over")
    product = hl.u16(below[C, X, Y]) * hl.u16(255 - above[3, X, Y]) + 128
    output[C, X, Y] = hl.u8_sat(hl.u16(above[C, X, Y]) + ((product + (product >> 8)) >> 8))
    for buffer in (above, below, output.output_buffer()):
        buffer.dim(0).set_bounds(0, 4)
        buffer.dim(1).set_stride(4)
    return _pipeline(output, 4, width, height)


def bicubic_twice(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return an image at twice its size, by cubics through four points along each side (Catmull and Rom)."""
    source = _image(width // 2, height // 2, name="source", pixel=hl.Float(32))
    clamped = _clamped(source, "clamped")
    taller, output = hl.Func("taller"), hl.Func("bicubic_twice")

    def between(place: hl.Var, values: list[hl.Expr]) -> hl.Expr:
        # An even pixel lies a quarter before the middle one of five, an odd pixel a quarter after it.
        weights = [hl.f32(weight / 128) for weight in (-3, 29, 111, -9)]
        before, after = (
            sum((weight * value for weight, value in zip(side, part, strict=True)), hl.f32(0))
            for side, part in ((weights, values[:4]), (weights[::-1], values[1:]))
        )
        return hl.select(place % 2 == 0, before, after)

    taller[X, Y] = between(Y, [clamped[X, Y // 2 + i] for i in range(-2, 3)])
    output[X, Y] = between(X, [taller[X // 2 + i, Y] for i in range(-2, 3)])
    return _pipeline(output, width, height)


def three_panels(width: int = 3840, height: int = 2160) -> hl.Pipeline:
    """Return three images side by side, in planes."""
    panel = width // 3
    images = [_image(panel, height, 3, name=name) for name in ("left", "middle", "right")]
    output = hl.Func("three_panels")
    left, middle, right = (
        image[hl.clamp(X - panel * number, 0, panel - 1), Y, C] for number, image in enumerate(images)
    )
    output[X, Y, C] = hl.select(panel > X, left, 2 * panel > X, middle, right)
    return _pipeline(output, width, height, 3)


def integral_image(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return the sum of each pixel and of all that are not right of it nor below it."""
    source, sums, output = _image(width, height, name="source"), hl.Func("sums"), hl.Func("integral_image")
    along_x, along_y = hl.RDom([(1, width - 1)], "along_x"), hl.RDom([(1, height - 1)], "along_y")
    sums[X, Y] = hl.u32(source[X, Y])
    sums[along_x.x, Y] += sums[along_x.x - 1, Y]
    sums[X, along_y.x] += sums[X, along_y.x - 1]
    output[X, Y] = sums[X, Y]
    return _pipeline(output, width, height)


def running_box(width: int = 1920, height: int = 1080, radius: int = 8) -> hl.Pipeline:
    """Return the mean of a square window around each pixel, by sums that gain a pixel and lose one at each step."""
    clamped = _clamped(_image(width, height, name="source"), "clamped")
    down, across, output = hl.Func("down"), hl.Func("across"), hl.Func("running_box")
    size = 2 * radius + 1
    first = hl.RDom([(-radius, size)], "first")
    step_y, step_x = hl.RDom([(1, height - 1)], "step_y"), hl.RDom([(1, width - 1)], "step_x")
    y, x = step_y.x, step_x.x
    down[X, Y] = hl.u16(0)
    down[X, 0] += hl.u16(clamped[X, first.x])
    down[X, y] = down[X, y - 1] + hl.u16(clamped[X, y + radius]) - hl.u16(clamped[X, y - radius - 1])
    across[X, Y] = hl.i32(0)
    across[0, Y] += hl.i32(down[hl.clamp(first.x, 0, width - 1), Y])
    gained, lost = (hl.i32(down[hl.clamp(x + i, 0, width - 1), Y]) for i in (radius, -radius - 1))
    across[x, Y] = across[x - 1, Y] + gained - lost
    output[X, Y] = hl.u8((across[X, Y] + size * size // 2) // (size * size))
    return _pipeline(output, width, height)


def conv3x3_bytes(width: int = 3840, height: int = 2160) -> hl.Pipeline:
    """Return bytes smoothed by binomial weights, three by three, with sums of 16 bits."""
    clamped = _clamped(_image(width, height, name="source"), "clamped")
    rows, output = hl.Func("rows"), hl.Func("conv3x3_bytes")
    left, middle, right = (hl.u16(clamped[X + i, Y]) for i in (-1, 0, 1))
    rows[X, Y] = left + 2 * middle + right
    output[X, Y] = hl.u8((rows[X, Y - 1] + 2 * rows[X, Y] + rows[X, Y + 1] + 8) >> 4)
    return _pipeline(output, width, height)


def sharpen_luma_only(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return planes of colours to which what the luma has beyond its surroundings is added, so that no hue changes."""
    clamped = _clamped(_image(width, height, 3, name="source"), "clamped")
    strength = hl.Param(hl.Int(16), "strength", 24)
    strength.set_estimate(24)
    luma, luma_down, detail, output = (hl.Func(name) for name in ("luma", "luma_down", "detail", "sharpen_luma_only"))
    red, green, blue = (hl.u16(clamped[X, Y, channel]) for channel in range(3))
    luma[X, Y] = (77 * red + 150 * green + 29 * blue + 128) >> 8
    weights = (1, 4, 6, 4, 1)
    luma_down[X, Y] = sum((weight * luma[X, Y + i - 2] for i, weight in enumerate(weights)), hl.u16(0))
    smooth = sum((weight * luma_down[X + i - 2, Y] for i, weight in enumerate(weights)), hl.u16(128)) >> 8
    detail[X, Y] = ((hl.i16(luma[X, Y]) - hl.i16(smooth)) * strength + 8) >> 4
    output[X, Y, C] = _byte(hl.i16(clamped[X, Y, C]) + detail[X, Y])
    return _pipeline(output, width, height, 3)


def block_motion(width: int = 3840, height: int = 2160) -> hl.Pipeline:
    """Return which of nine moves of a block of 8 by 8 fits the frame before best, by sums of absolute differences."""
    frame, before = (_image(width, height, name=name) for name in ("frame", "before"))
    clamped = _clamped(before, "clamped")
    row_distance, distance, best = (hl.Func(name) for name in ("row_distance", "distance", "best"))
    output = hl.Func("block_motion")
    column, row, move = (hl.RDom([(0, size)], name) for size, name in ((8, "column"), (8, "row"), (9, "move")))
    x = 8 * X + column.x
    row_distance[X, Y, N] = hl.u16(0)
    row_distance[X, Y, N] += hl.u16(hl.absd(frame[x, Y], clamped[x + N % 3 - 1, Y + N // 3 - 1]))
    distance[X, Y, N] = hl.u16(0)
    distance[X, Y, N] += row_distance[X, 8 * Y + row.x, N]
    best[X, Y] = (hl.u16(65535), hl.u8(0))
    found, least, index = distance[X, Y, move.x], best[X, Y][0], best[X, Y][1]
    best[X, Y] = (hl.min(found, least), hl.select(found < least, hl.u8(move.x), index))
    output[X, Y] = best[X, Y][1]
    return _pipeline(output, width // 8, height // 8)


def deinterlace(width: int = 1920, height: int = 1080) -> hl.Pipeline:
    """Return frames whose odd rows are made anew: along the edge through them, within reach of the frame before."""
    frame, before = (_clamped(_image(width, height, name=name), f"{name}_clamped") for name in ("frame", "before"))
    difference, along_edge, output = hl.Func("difference"), hl.Func("along_edge"), hl.Func("deinterlace")
    above, below = ([frame[X + i, Y + row] for i in (-1, 0, 1)] for row in (-1, 1))
    pairs = [(above[1], below[1]), (above[0], below[2]), (above[2], below[0])]
    straight, falling, rising = (hl.absd(*pair) for pair in pairs)
    means = [hl.u8((hl.u16(top) + hl.u16(bottom) + 1) >> 1) for top, bottom in pairs]
    along_edge[X, Y] = hl.select(straight <= hl.min(falling, rising), means[0], falling <= rising, means[1], means[2])
    low, high = hl.min(above[1], below[1]), hl.max(above[1], below[1])
    steady = hl.max(hl.min(before[X, Y], high), low)
    difference[X, Y] = hl.absd(frame[X, Y - 1], before[X, Y - 1]) // 2 + hl.absd(frame[X, Y + 1], before[X, Y + 1]) // 2
    made = hl.select(difference[X, Y] < 8, steady, along_edge[X, Y])
    output[X, Y] = hl.select(Y % 2 == 0, frame[X, Y], made)
    return _pipeline(output, width, height)


def block_exposure(width: int = 4096, height: int = 3072) -> hl.Pipeline:
    """Return sums of the four colours of a Bayer mosaic over blocks of 32 by 32, as an exposure meter asks."""
    mosaic = _image(width, height, name="mosaic", pixel=hl.UInt(16))
    sums, output = hl.Func("sums"), hl.Func("block_exposure")
    cell = hl.RDom([(0, 16), (0, 16)], "cell")
    sums[X, Y, C] = hl.u32(0)
    sums[X, Y, C] += hl.u32(mosaic[32 * X + 2 * cell.x + C % 2, 32 * Y + 2 * cell.y + C // 2])
    output[X, Y, C] = sums[X, Y, C]
    return _pipeline(output, width // 32, height // 32, 4)


def _in_strips(output: hl.Func, rows: int, vector: int) -> tuple[hl.Var, hl.Var]:
    """Let tasks compute strips of so many rows; return the loops over strips, and over rows in a strip."""
    x, y = output.args()[:2]
    strip, row = hl.Var("strip"), hl.Var("row")
    output.split(y, strip, row, rows).vectorize(x, vector).parallel(strip)
    return strip, row


def _hwc_grey(f: Mapping[str, hl.Func], lanes: int) -> None:
    _in_strips(f["hwc_grey"], 16, 2 * lanes)


def _yuv420_to_rgb(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["yuv420_to_rgb"]
    x, _, c = output.args()
    strip, row = _in_strips(output, 16, 4 * lanes)
    output.bound(c, 0, 3).reorder(x, c, row, strip).unroll(c)


def _premultiplied_over(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["premultiplied_over"]
    c, x, y = output.args()
    strip, row = hl.Var("strip"), hl.Var("row")
    output.bound(c, 0, 4).split(y, strip, row, 16).vectorize(c).vectorize(x, lanes).parallel(strip)


def _bicubic_twice(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, taller = f["bicubic_twice"], f["taller"]
    strip, _ = _in_strips(output, 16, 2 * lanes)
    x, y = taller.args()
    # Pairs of rows that begin with an even one: no row computes what only the other kind needs.
    taller.compute_at(output, strip).align_bounds(y, 2).vectorize(x, lanes).unroll(y, 2)


def _three_panels(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["three_panels"]
    x, y, c = output.args()
    strip, row, panel, column = (hl.Var(name) for name in ("strip", "row", "panel", "column"))
    output.split(y, strip, row, 30).reorder(x, row, c, strip).parallel(strip)
    # Where a loop goes over one panel only, nothing is left of the clamps, and loads are of neighbours.
    sides = output.output_buffer().dim(0)
    whole = output.specialize((sides.min() == 0) & (sides.extent() == 3840))
    whole.split(x, panel, column, 1280).reorder(column, panel, row, c, strip).unroll(panel).vectorize(column, 4 * lanes)
    output.vectorize(x, 4 * lanes)


def _integral_image(f: Mapping[str, hl.Func], lanes: int) -> None:
    sums = f["sums"]
    x, y = sums.args()
    (along_x,), (along_y,) = sums.rvars(0), sums.rvars(1)
    strip, row, column = hl.Var("strip"), hl.Var("row"), hl.Var("column")
    sums.compute_root().split(y, strip, row, 8).vectorize(x, lanes).parallel(strip)
    sums.update(0).split(y, strip, row, 8).reorder(along_x, row, strip).parallel(strip)
    across = sums.update(1).split(x, strip, column, 4 * lanes).reorder(column, along_y, strip)
    across.vectorize(column, lanes).parallel(strip)
    _in_strips(f["integral_image"], 32, lanes)


def _running_box(f: Mapping[str, hl.Func], lanes: int) -> None:
    down, across, output = f["down"], f["across"], f["running_box"]
    strip, row, column = hl.Var("strip"), hl.Var("row"), hl.Var("column")
    x, y = down.args()
    (first,), (step,) = down.rvars(0), down.rvars(1)
    down.compute_root().split(y, strip, row, 64).vectorize(x, 2 * lanes).parallel(strip)
    down.update(0).reorder(x, first).vectorize(x, 2 * lanes)
    steps = down.update(1).split(x, strip, column, 8 * lanes).reorder(column, step, strip)
    steps.vectorize(column, 2 * lanes).parallel(strip)
    # Rows have their sums side by side, so that no step waits for the one before.
    strip, _ = _in_strips(output, 8, lanes)
    x, y = across.args()
    across.compute_at(output, strip).vectorize(x, lanes)
    for number in range(2):
        across.update(number).reorder(y, *across.rvars(number)).unroll(y)


def _conv3x3_bytes(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, rows = f["conv3x3_bytes"], f["rows"]
    x, _ = output.args()
    inner = hl.Var("inner")
    strip, row = _in_strips(output, 60, 2 * lanes)
    output.split(row, row, inner, 4).reorder(x, inner, row, strip).unroll(inner)
    rows.store_at(output, strip).compute_at(output, row).vectorize(rows.args()[0], 2 * lanes)


def _sharpen_luma_only(f: Mapping[str, hl.Func], lanes: int) -> None:
    output, luma = f["sharpen_luma_only"], f["luma"]
    x, _, c = output.args()
    inner = hl.Var("inner")
    strip, row = _in_strips(output, 36, 2 * lanes)
    output.bound(c, 0, 3).split(row, row, inner, 2).reorder(x, c, inner, row, strip)
    luma.store_at(output, strip).compute_at(output, row).vectorize(luma.args()[0], 2 * lanes)
    for name in ("luma_down", "detail"):
        f[name].compute_at(output, inner).vectorize(f[name].args()[0], 2 * lanes)
    for func, rows in ((luma, luma.args()[1]), (output, strip), (output, row), (output, inner)):
        func.partition(rows, hl.Partition.Never)


def _block_motion(f: Mapping[str, hl.Func], lanes: int) -> None:
    row_distance, distance, best, output = (f[name] for name in ("row_distance", "distance", "best", "block_motion"))
    blocks = lanes // 2
    x, y = output.args()
    strip, row, group, block = (hl.Var(name) for name in ("strip", "row", "group", "block"))
    output.split(y, strip, row, 9).split(x, group, block, blocks).vectorize(block).parallel(strip)
    clamped = f["clamped"]
    clamped.compute_at(output, strip).vectorize(clamped.args()[0], 4 * lanes)
    clamped.partition(clamped.args()[1], hl.Partition.Never)
    (move,), (row_of_block,), (column,) = best.rvars(0), distance.rvars(0), row_distance.rvars(0)
    x, _ = best.args()
    best.compute_at(output, group).vectorize(x)
    best.update().reorder(x, move).vectorize(x).unroll(move)
    x, *_ = distance.args()
    distance.compute_at(best, move).vectorize(x)
    distance.update().reorder(x, row_of_block).vectorize(x).unroll(row_of_block)
    x, *_ = row_distance.args()
    row_distance.compute_at(distance, row_of_block).vectorize(x)
    row_distance.update().atomic().reorder(column, x).vectorize(column).vectorize(x)


def _deinterlace(f: Mapping[str, hl.Func], lanes: int) -> None:
    output = f["deinterlace"]
    for loop in _in_strips(output, 20, lanes):
        output.partition(loop, hl.Partition.Never)


def _block_exposure(f: Mapping[str, hl.Func], lanes: int) -> None:
    sums, output = f["sums"], f["block_exposure"]
    x, y, c = output.args()
    output.reorder(c, x, y).parallel(y)
    column = hl.Var("column")
    (cell_x, _), sums_c = sums.rvars(0), sums.args()[2]
    columns = sums.update().rfactor(cell_x, column)
    sums.compute_at(output, x).bound(sums_c, 0, 4)
    sums.update().atomic().reorder(cell_x, sums_c).vectorize(cell_x).unroll(sums_c)
    columns.compute_at(output, x).bound(sums_c, 0, 4).reorder_storage(column, sums_c, *sums.args()[:2])
    columns.vectorize(column).unroll(sums_c)
    columns.update().reorder(column, sums_c, *columns.rvars(0)).vectorize(column).unroll(sums_c)


SCHEDULES: dict[str, Callable[[Mapping[str, hl.Func], int], None]] = {
    "hwc_grey": _hwc_grey,
    "yuv420_to_rgb": _yuv420_to_rgb,
    "premultiplied_over": _premultiplied_over,
    "bicubic_twice": _bicubic_twice,
    "three_panels": _three_panels,
    "integral_image": _integral_image,
    "running_box": _running_box,
    "conv3x3_bytes": _conv3x3_bytes,
    "sharpen_luma_only": _sharpen_luma_only,
    "block_motion": _block_motion,
    "deinterlace": _deinterlace,
    "block_exposure": _block_exposure,
}
