"""Unsharp masking: the luminance minus its Gaussian blur is added back to a colour image.

A float colour image enters and leaves in the same size; the edge is repeated outwards. The Gaussian is a small table
that the pipeline computes, the blur separable, and the sharpening a ratio, so that colours keep their hue.
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph

__all__ = ["APP"]

_SIGMA = 1.5
_RADIUS = 3
# Keeps the ratio finite where the image is black.
_DARKEST = 1 / 1024


def _build() -> hl.Pipeline:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    image = hl.ImageParam(hl.Float(32), 3, "input")
    clamped = hl.BoundaryConditions.repeat_edge(image, [(0, image.width()), (0, image.height())])

    kernel = hl.Func("kernel")
    kernel[x] = hl.exp(x * x * hl.f32(-0.5 / _SIGMA**2)) * hl.f32(1 / (_SIGMA * np.sqrt(2 * np.pi)))

    gray = hl.Func("gray")
    red, green, blue = (clamped[x, y, channel] for channel in range(3))
    gray[x, y] = hl.f32(0.299) * red + hl.f32(0.587) * green + hl.f32(0.114) * blue

    blur_y, blur_x = hl.Func("blur_y"), hl.Func("blur_x")
    steps = range(1, _RADIUS + 1)
    blur_y[x, y] = kernel[0] * gray[x, y] + sum(kernel[d] * (gray[x, y - d] + gray[x, y + d]) for d in steps)
    blur_x[x, y] = kernel[0] * blur_y[x, y] + sum(kernel[d] * (blur_y[x - d, y] + blur_y[x + d, y]) for d in steps)

    sharpen, ratio, unsharp = hl.Func("sharpen"), hl.Func("ratio"), hl.Func("unsharp")
    sharpen[x, y] = 2 * gray[x, y] - blur_x[x, y]
    ratio[x, y] = sharpen[x, y] / hl.max(gray[x, y], _DARKEST)
    unsharp[x, y, c] = ratio[x, y] * clamped[x, y, c]

    image.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    unsharp.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    return hl.Pipeline(unsharp)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    channels, height, width = output_shape
    return {"input": photograph(height, width, seed=seed, channels=channels)}


def _reference(inputs: Inputs) -> Array:
    image = inputs["input"].astype(np.float64)
    gray = np.tensordot([0.299, 0.587, 0.114], image, axes=1)
    offsets = np.arange(-_RADIUS, _RADIUS + 1)
    kernel = np.exp(-(offsets**2) / (2 * _SIGMA**2)) / (_SIGMA * np.sqrt(2 * np.pi))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(gray, _RADIUS, mode="edge"), (kernel.size, kernel.size))
    blurred = np.einsum("yxij,ij->yx", windows, np.outer(kernel, kernel))
    result: Array = (2 * gray - blurred) / np.maximum(gray, _DARKEST) * image
    return result.astype(np.float32)


APP = App(
    name="unsharp",
    title="Unsharp mask",
    description="Sharpening of a colour image by a separable Gaussian of its luminance, float32.",
    build=_build,
    output_shape=(3, HEIGHT, WIDTH),
    small_output_shape=(3, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(absolute=1e-5, relative=1e-4),
)
