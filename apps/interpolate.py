"""Interpolation of sparse pixels: an image with holes is filled from coarser and coarser versions of itself.

A float image with red, green, blue and opacity enters, colours in the same size leave; the edge is repeated outwards.
Colours are multiplied by their opacity and averaged into a pyramid; from the coarsest level to the finest, what a level
leaves transparent shows the one below it, and the colours of the finest are divided by their opacity. One pixel that
is not transparent must be near enough for the pyramid, or the result is not a number.
"""

import halide as hl
import numpy as np

from .app import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph

__all__ = ["APP"]

_LEVELS = 10
# The edge is repeated anew at this level, or a small image would be padded with twice the reach of the coarsest one.
_BOUNDED_LEVEL = 4
_BOUNDED_STEP = 1 << _BOUNDED_LEVEL
_OPACITY = 3
# Part of the pixels that are not fully transparent.
_KNOWN = 0.3


def _downsample(source: hl.Func, level: int) -> hl.Func:
    """Halve both dimensions with the filter 1 2 1."""
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    down_x, down = hl.Func(f"down_x_{level}"), hl.Func(f"down_{level}")
    down_x[x, y, c] = (source[2 * x - 1, y, c] + 2 * source[2 * x, y, c] + source[2 * x + 1, y, c]) / 4
    down[x, y, c] = (down_x[x, 2 * y - 1, c] + 2 * down_x[x, 2 * y, c] + down_x[x, 2 * y + 1, c]) / 4
    return down


def _upsample(source: hl.Func, level: int) -> hl.Func:
    """Double both dimensions, with the mean of two pixels between them."""
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    up_x, up = hl.Func(f"up_x_{level}"), hl.Func(f"up_{level}")
    up_x[x, y, c] = (source[x // 2, y, c] + source[(x + 1) // 2, y, c]) / 2
    up[x, y, c] = (up_x[x, y // 2, c] + up_x[x, (y + 1) // 2, c]) / 2
    return up


def _bounded(source: hl.Func, width: hl.Expr, height: hl.Expr) -> hl.Func:
    """Repeat the edge of what is left of an image of this size at `_BOUNDED_LEVEL`."""
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    bounded = hl.Func("bounded")
    right, bottom = ((size - 1) // _BOUNDED_STEP for size in (width, height))
    bounded[x, y, c] = source[hl.clamp(x, 0, right), hl.clamp(y, 0, bottom), c]
    return bounded


def _build() -> hl.Pipeline:
    x, y, c = hl.Var("x"), hl.Var("y"), hl.Var("c")
    image = hl.ImageParam(hl.Float(32), 3, "input")
    clamped = hl.BoundaryConditions.repeat_edge(image, [(0, image.width()), (0, image.height())])
    premultiplied = hl.Func("premultiplied")
    premultiplied[x, y, c] = hl.select(c < _OPACITY, clamped[x, y, c], 1.0) * clamped[x, y, _OPACITY]

    pyramid = [premultiplied]
    for level in range(1, _LEVELS):
        pyramid.append(_downsample(pyramid[-1], level))
        if level == _BOUNDED_LEVEL:
            pyramid[-1] = _bounded(pyramid[-1], image.width(), image.height())

    filled = pyramid[-1]
    for level in reversed(range(_LEVELS - 1)):
        below, layer = _upsample(filled, level), pyramid[level]
        filled = hl.Func(f"filled_{level}")
        filled[x, y, c] = layer[x, y, c] + (1 - layer[x, y, _OPACITY]) * below[x, y, c]

    output = hl.Func("interpolate")
    output[x, y, c] = filled[x, y, c] / filled[x, y, _OPACITY]
    image.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 4)])
    output.set_estimates([(0, WIDTH), (0, HEIGHT), (0, 3)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    channels, height, width = output_shape
    rng = np.random.default_rng(seed)
    opacity = rng.uniform(1 / 4, 1, (height, width)) * (rng.uniform(size=(height, width)) < _KNOWN)
    # However small the image, one pixel is known.
    opacity[0, 0] = 1
    return {"input": np.stack([*photograph(height, width, seed=seed, channels=channels), opacity.astype(np.float32)])}


def _halved(image: Array) -> Array:
    for axis in (1, 2):
        image = np.moveaxis(image, axis, -1)
        left = np.concatenate([image[..., :1], image[..., 1:-1:2]], axis=-1)
        image = np.moveaxis((left + 2 * image[..., ::2] + image[..., 1::2]) / 4, -1, axis)
    return image


def _doubled(image: Array) -> Array:
    for axis in (1, 2):
        image = np.moveaxis(image, axis, -1)
        right = np.concatenate([image[..., 1:], image[..., -1:]], axis=-1)
        pairs = np.stack([image, (image + right) / 2], axis=-1)
        image = np.moveaxis(pairs.reshape(*image.shape[:-1], -1), -1, axis)
    return image


def _reference(inputs: Inputs) -> Array:
    image = inputs["input"].astype(np.float64)
    height, width = image.shape[1:]
    # Beyond the repeated edge nothing changes, so this much of it stands for an image without end.
    margin = 1 << _LEVELS - 1
    layer = np.pad(image, ((0, 0), *((margin, margin + -size % margin) for size in (height, width))), mode="edge")
    layer[:_OPACITY] *= layer[_OPACITY]
    pyramid = [layer]
    for level in range(1, _LEVELS):
        pyramid.append(_halved(pyramid[-1]))
        if level == _BOUNDED_LEVEL:
            rows, columns = (np.arange(size) - margin // _BOUNDED_STEP for size in pyramid[-1].shape[1:])
            bottom, right = ((size - 1) // _BOUNDED_STEP for size in (height, width))
            first = margin // _BOUNDED_STEP
            pyramid[-1] = pyramid[-1][:, np.clip(rows, 0, bottom) + first][:, :, np.clip(columns, 0, right) + first]
    filled = pyramid[-1]
    for layer in reversed(pyramid[:-1]):
        filled = layer + (1 - layer[_OPACITY]) * _doubled(filled)
    inside = filled[:, margin : margin + height, margin : margin + width]
    colour: Array = inside[:_OPACITY] / inside[_OPACITY]
    return colour.astype(np.float32)


APP = App(
    name="interpolate",
    title="Interpolation",
    description="Fills the transparent parts of a colour image through a pyramid of 10 levels, float32.",
    build=_build,
    output_shape=(3, HEIGHT, WIDTH),
    small_output_shape=(3, SMALL_HEIGHT, SMALL_WIDTH),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    tolerance=Tolerance(absolute=1e-5, relative=1e-4),
)
