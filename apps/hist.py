"""Histogram equalisation of a colour image: its luma is spread evenly over the range, its colour differences stay.

An 8-bit colour image enters and leaves in the same size. The histogram scatters, one row of the image at a time; the
rows are summed, and a scan of the sum is the table that maps luma to luma. Luma is integer arithmetic, because one
pixel that falls into another bin by a rounding would change the whole image.
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph_uint8

__all__ = ["APP"]

# Luma weights of ITU-R BT.601 in 256ths; the sum fits in 16 bits.
_LUMA = (77, 150, 29)
# Scales of the colour differences red - luma and blue - luma to chroma, and what green takes of each on the way back.
_TO_CHROMA = (0.713, 0.564)
_GREEN = (0.714, 0.344)


def _cumulative_histogram(luma: hl.Func, width: hl.Expr, height: hl.Expr) -> hl.Func:
    bin_, y = hl.Var("bin"), hl.Var("y")
    columns, rows = hl.RDom([(0, width)], "columns"), hl.RDom([(0, height)], "rows")
    row_histogram = hl.Func("row_histogram")
    row_histogram[bin_, y] = hl.u32(0)
    row_histogram[hl.i32(luma[columns.x, y]), y] += hl.u32(1)

    histogram = hl.Func("histogram")
    histogram[bin_] = hl.u32(0)
    histogram[bin_] += row_histogram[bin_, rows.x]

    later = hl.RDom([(1, 255)], "later")
    cumulative = hl.Func("cumulative")
    cumulative[bin_] = histogram[0]
    cumulative[later.x] = cumulative[later.x - 1] + histogram[later.x]
    return cumulative


def _build() -> hl.Pipeline:
    x, y, c, bin_ = hl.Var("x"), hl.Var("y"), hl.Var("c"), hl.Var("bin")
    image = hl.ImageParam(hl.UInt(8), 3, "input")

    luma = hl.Func("luma")
    weighted = sum(hl.u16(weight) * hl.u16(image[x, y, channel]) for channel, weight in enumerate(_LUMA))
    luma[x, y] = hl.u8((weighted + hl.u16(128)) >> 8)

    chroma_red, chroma_blue = hl.Func("chroma_red"), hl.Func("chroma_blue")
    chroma_red[x, y] = (hl.f32(image[x, y, 0]) - luma[x, y]) * hl.f32(_TO_CHROMA[0])
    chroma_blue[x, y] = (hl.f32(image[x, y, 2]) - luma[x, y]) * hl.f32(_TO_CHROMA[1])

    cumulative = _cumulative_histogram(luma, image.width(), image.height())
    table, equalized = hl.Func("table"), hl.Func("equalized")
    table[bin_] = hl.f32(cumulative[bin_]) * (255.0 / hl.f32(image.width() * image.height()))
    equalized[x, y] = table[hl.i32(luma[x, y])]

    red, green, blue = hl.Func("red"), hl.Func("green"), hl.Func("blue")
    green_of_red, green_of_blue = (hl.f32(share) for share in _GREEN)
    red[x, y] = equalized[x, y] + chroma_red[x, y] / hl.f32(_TO_CHROMA[0])
    green[x, y] = equalized[x, y] - green_of_red * chroma_red[x, y] - green_of_blue * chroma_blue[x, y]
    blue[x, y] = equalized[x, y] + chroma_blue[x, y] / hl.f32(_TO_CHROMA[1])

    output = hl.Func("hist")
    output[x, y, c] = hl.u8(hl.clamp(hl.mux(c, [red[x, y], green[x, y], blue[x, y]]), 0.0, 255.0) + 0.5)

    image.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    output.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    channels, height, width = output_shape
    return {"input": photograph_uint8(height, width, seed=seed, channels=channels)}


def _reference(inputs: Inputs) -> Array:
    image = inputs["input"].astype(np.int64)
    luma = (np.tensordot(_LUMA, image, axes=1) + 128) // 256
    table = np.cumsum(np.bincount(luma.ravel(), minlength=256)) * (255 / luma.size)
    equalized = table[luma]
    chroma_red, chroma_blue = (image[0] - luma) * _TO_CHROMA[0], (image[2] - luma) * _TO_CHROMA[1]
    red = equalized + chroma_red / _TO_CHROMA[0]
    green = equalized - _GREEN[0] * chroma_red - _GREEN[1] * chroma_blue
    blue = equalized + chroma_blue / _TO_CHROMA[1]
    colour: Array = np.clip([red, green, blue], 0, 255)
    return np.floor(colour + 0.5).astype(np.uint8)


APP = App(
    name="hist",
    title="Histogram equalisation",
    description="Equalises the luma of a colour image: histogram, scan, table lookup, uint8.",
    build=_build,
    output_shape=(3, HEIGHT, WIDTH),
    small_output_shape=(3, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.uint8),
    make_inputs=_inputs,
    reference=_reference,
    # The last step rounds a float to an integer.
    tolerance=Tolerance(absolute=1, relative=0),
)
