"""Demosaicking by a small convolutional network: a mosaic of one colour a pixel enters, three colours a pixel leave.

The four colours of each 2x2 pixels of the mosaic (green, red, blue, green) become channels of an image of half the
size. Three layers of 3x3 filters with rectification and one without follow, the last with a channel for each of three
colours of each of the four pixels; these are taken apart again, and what the mosaic knows is added to them (after
Gharbi et al. 2016, §3.1, with fewer and narrower layers). The filters are inputs. Beyond its edge the mosaic is
mirrored, which leaves every colour in its place.
"""

import halide as hl
import numpy as np

from .app import HEIGHT, WIDTH, App, Array, Inputs, Shape, Tolerance
from .images import photograph

__all__ = ["APP"]

_PACKED = 4
_FEATURES = 16
_COLOURS = 3
_TAPS = 3
_LAYERS = 4
# Pixels of the mosaic that the filters reach on each side: one of half the size for each layer.
_MARGIN = 2 * _LAYERS
_CHANNELS = (_PACKED, *[_FEATURES] * (_LAYERS - 1), _COLOURS * _PACKED)
# Which colour each of the four pixels is of: green, red in the first row, blue, green in the second.
_KNOWN = (1, 0, 2, 1)


def _layer(source: hl.Func, weights: hl.ImageParam, bias: hl.ImageParam, level: int) -> hl.Func:
    """Convolve, and rectify all but the last layer."""
    c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
    tap = hl.RDom([(0, _CHANNELS[level]), (0, _TAPS), (0, _TAPS)], f"tap_{level}")
    convolved = hl.Func(f"convolved_{level}")
    convolved[c, x, y] = bias[c]
    convolved[c, x, y] += weights[c, tap.y, tap.z, tap.x] * source[tap.x, x + tap.y - 1, y + tap.z - 1]
    if level == _LAYERS - 1:
        return convolved
    rectified = hl.Func(f"rectified_{level}")
    rectified[c, x, y] = hl.max(convolved[c, x, y], 0.0)
    return rectified


def _build() -> hl.Pipeline:
    c, x, y = hl.Var("c"), hl.Var("x"), hl.Var("y")
    mosaic = hl.ImageParam(hl.Float(32), 2, "input")
    size = [(0, mosaic.width()), (0, mosaic.height())]
    mirrored = hl.BoundaryConditions.mirror_interior(mosaic, size)
    packed = hl.Func("packed")
    packed[c, x, y] = mirrored[2 * x + c % 2, 2 * y + c // 2]
    features = packed
    for level in range(_LAYERS):
        weights = hl.ImageParam(hl.Float(32), 4, f"filter_{level}")
        bias = hl.ImageParam(hl.Float(32), 1, f"bias_{level}")
        weights.set_estimates([(0, _CHANNELS[level + 1]), (0, _TAPS), (0, _TAPS), (0, _CHANNELS[level])])
        bias.set_estimates([(0, _CHANNELS[level + 1])])
        features = _layer(features, weights, bias, level)

    pixel = x % 2 + 2 * (y % 2)
    known = hl.mux(pixel, list(_KNOWN)) == c
    output = hl.Func("learned_demosaic")
    learned = features[_COLOURS * pixel + c, x // 2, y // 2]
    output[x, y, c] = learned + hl.select(known, mirrored[x, y], 0.0)

    mosaic.set_estimates([(0, WIDTH), (0, HEIGHT)])
    output.set_estimates([(0, WIDTH), (0, HEIGHT), (0, _COLOURS)])
    return hl.Pipeline(output)


def _places(pixel: int) -> tuple[slice, slice]:
    """Return the rows and columns of one of the four pixels."""
    return slice(pixel // 2, None, 2), slice(pixel % 2, None, 2)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    _, height, width = output_shape
    rng = np.random.default_rng(seed)
    image = photograph(height, width, seed=seed)
    mosaic = np.empty((height, width), np.float32)
    for pixel, colour in enumerate(_KNOWN):
        mosaic[_places(pixel)] = image[colour][_places(pixel)]
    inputs: dict[str, Array] = {"input": mosaic}
    for level in range(_LAYERS):
        # As large as leaves the size of what goes through a layer as it is (He et al. 2015).
        scale = np.sqrt(2 / (_CHANNELS[level] * _TAPS * _TAPS))
        shape = (_CHANNELS[level], _TAPS, _TAPS, _CHANNELS[level + 1])
        inputs[f"filter_{level}"] = rng.normal(0, scale, shape).astype(np.float32)
        inputs[f"bias_{level}"] = rng.uniform(-0.1, 0.1, shape[-1]).astype(np.float32)
    return inputs


def _reference(inputs: Inputs) -> Array:
    mosaic = inputs["input"].astype(np.float64)
    height, width = mosaic.shape
    # Whole groups of 2x2 pixels.
    padded = np.pad(mosaic, [(_MARGIN, _MARGIN + size % 2) for size in mosaic.shape], mode="reflect")
    rows, columns = (size // 2 for size in padded.shape)
    features = padded.reshape(rows, 2, columns, 2).transpose(0, 2, 1, 3).reshape(rows, columns, _PACKED)
    for level in range(_LAYERS):
        windows = np.lib.stride_tricks.sliding_window_view(features, (_TAPS, _TAPS), axis=(0, 1))
        # `windows` is [y, x, channel, row of the filter, column of the filter].
        features = np.einsum("yxcij,cijk->yxk", windows, inputs[f"filter_{level}"]) + inputs[f"bias_{level}"]
        features = np.maximum(features, 0) if level < _LAYERS - 1 else features
    rows, columns = features.shape[:2]
    pixels = features.reshape(rows, columns, 2, 2, _COLOURS).transpose(4, 0, 2, 1, 3)
    colours: Array = pixels.reshape(_COLOURS, 2 * rows, 2 * columns)[:, :height, :width].copy()
    for pixel, colour in enumerate(_KNOWN):
        colours[colour][_places(pixel)] += mosaic[_places(pixel)]
    return colours.astype(np.float32)


APP = App(
    name="learned_demosaic",
    title="Learned demosaicking",
    description=f"A mosaic to colours by {_LAYERS} layers of 3x3 filters, {_FEATURES} features, float32.",
    build=_build,
    output_shape=(_COLOURS, HEIGHT, WIDTH),
    small_output_shape=(_COLOURS, 24, 38),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    # Sums of some hundred terms of both signs, whose size is near 1.
    tolerance=Tolerance(absolute=1e-4, relative=1e-4),
)
