"""One layer of a convolutional network: 3x3 convolution, bias and rectification, of a batch of 5 images.

Activations `[n, y, x, channel]` enter, larger than the output by one pixel on each side, with filters
`[channel in, y, x, channel out]` and a bias per channel; activations leave. The number of channels that enter and the
size of the filters are part of the algorithm, so that the reduction loops have constant extents; the output may have
any size. `conv_layer` goes from 128 channels to 128; `conv_relu` from 120 to 24, as in Adams et al. 2019, §6.1.
"""

from functools import partial

import halide as hl
import numpy as np

from .app import App, Array, Inputs, Shape, Tolerance

__all__ = ["APP"]

_TAPS = 3
_MARGIN = _TAPS - 1
_WIDTH = 100
_HEIGHT = 80
_BATCH = 5


def _build(name: str, channels_in: int, channels_out: int) -> hl.Pipeline:
    c, x, y, n = (hl.Var(name) for name in "cxyn")
    image = hl.ImageParam(hl.Float(32), 4, "input")
    weights = hl.ImageParam(hl.Float(32), 4, "filter")
    bias = hl.ImageParam(hl.Float(32), 1, "bias")

    tap = hl.RDom([(0, channels_in), (0, _TAPS), (0, _TAPS)], "tap")
    convolved, output = hl.Func("convolved"), hl.Func(name)
    convolved[c, x, y, n] = bias[c]
    convolved[c, x, y, n] += weights[c, tap.y, tap.z, tap.x] * image[tap.x, x + tap.y, y + tap.z, n]
    output[c, x, y, n] = hl.max(convolved[c, x, y, n], 0.0)

    image.set_estimates([(0, channels_in), (0, _WIDTH + _MARGIN), (0, _HEIGHT + _MARGIN), (0, _BATCH)])
    weights.set_estimates([(0, channels_out), (0, _TAPS), (0, _TAPS), (0, channels_in)])
    bias.set_estimates([(0, channels_out)])
    output.set_estimates([(0, channels_out), (0, _WIDTH), (0, _HEIGHT), (0, _BATCH)])
    return hl.Pipeline(output)


def _inputs(channels_in: int, output_shape: Shape, seed: int) -> Inputs:
    batch, height, width, channels = output_shape
    rng = np.random.default_rng(seed)
    shapes = {
        "input": (batch, height + _MARGIN, width + _MARGIN, channels_in),
        "filter": (channels_in, _TAPS, _TAPS, channels),
        "bias": (channels,),
    }
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def _reference(inputs: Inputs) -> Array:
    image, weights = inputs["input"].astype(np.float64), inputs["filter"].astype(np.float64)
    height, width = (size - _MARGIN for size in image.shape[1:3])
    result = np.zeros((image.shape[0], height, width, weights.shape[-1])) + inputs["bias"]
    for dy in range(_TAPS):
        for dx in range(_TAPS):
            result += image[:, dy : dy + height, dx : dx + width] @ weights[:, dy, dx]
    rectified: Array = np.maximum(result, 0)
    return rectified.astype(np.float32)


def _app(name: str, title: str, channels_in: int, channels_out: int) -> App:
    return App(
        name=name,
        title=title,
        description=f"3x3 convolution of {channels_in} channels to {channels_out}, bias and ReLU, batch of {_BATCH}, "
        "float32.",
        build=partial(_build, name, channels_in, channels_out),
        output_shape=(_BATCH, _HEIGHT, _WIDTH, channels_out),
        small_output_shape=(2, 7, 13, 37),
        output_type=np.dtype(np.float32),
        make_inputs=partial(_inputs, channels_in),
        reference=_reference,
        # As for the matrix product: terms of both signs cancel, 1152 of them below 1 to a sum of about 11.
        tolerance=Tolerance(absolute=1e-3, relative=1e-4),
    )


APP = _app("conv_layer", "Convolution layer", 128, 128)
APP_RELU = _app("conv_relu", "Convolution of few channels", 120, 24)
