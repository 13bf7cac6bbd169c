"""One layer of a convolutional network: 3x3 convolution from 128 channels to 128, bias and rectification, batch of 5.

Activations `[n, y, x, channel]` enter, larger than the output by one pixel on each side, with filters
`[channel in, y, x, channel out]` and a bias per channel; activations leave. The number of channels that enter and the
size of the filters are part of the algorithm, so that the reduction loops have constant extents; the output may have
any size. Adams et al. 2019, §6.1, has the same layer with fewer channels.
"""

import halide as hl
import numpy as np

from .app import App, Array, Inputs, Shape, Tolerance

__all__ = ["APP"]

_CHANNELS = 128
_TAPS = 3
_MARGIN = _TAPS - 1
_WIDTH = 100
_HEIGHT = 80
_BATCH = 5


def _build() -> hl.Pipeline:
    c, x, y, n = (hl.Var(name) for name in "cxyn")
    image = hl.ImageParam(hl.Float(32), 4, "input")
    weights = hl.ImageParam(hl.Float(32), 4, "filter")
    bias = hl.ImageParam(hl.Float(32), 1, "bias")

    tap = hl.RDom([(0, _CHANNELS), (0, _TAPS), (0, _TAPS)], "tap")
    convolved, output = hl.Func("convolved"), hl.Func("conv_layer")
    convolved[c, x, y, n] = bias[c]
    convolved[c, x, y, n] += weights[c, tap.y, tap.z, tap.x] * image[tap.x, x + tap.y, y + tap.z, n]
    output[c, x, y, n] = hl.max(convolved[c, x, y, n], 0.0)

    image.set_estimates([(0, _CHANNELS), (0, _WIDTH + _MARGIN), (0, _HEIGHT + _MARGIN), (0, _BATCH)])
    weights.set_estimates([(0, _CHANNELS), (0, _TAPS), (0, _TAPS), (0, _CHANNELS)])
    bias.set_estimates([(0, _CHANNELS)])
    output.set_estimates([(0, _CHANNELS), (0, _WIDTH), (0, _HEIGHT), (0, _BATCH)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    batch, height, width, channels = output_shape
    rng = np.random.default_rng(seed)
    shapes = {
        "input": (batch, height + _MARGIN, width + _MARGIN, _CHANNELS),
        "filter": (_CHANNELS, _TAPS, _TAPS, channels),
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


APP = App(
    name="conv_layer",
    title="Convolution layer",
    description=f"3x3 convolution of {_CHANNELS} channels to {_CHANNELS}, bias and ReLU, batch of {_BATCH}, float32.",
    build=_build,
    output_shape=(_BATCH, _HEIGHT, _WIDTH, _CHANNELS),
    small_output_shape=(2, 7, 13, 37),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    # As for the matrix product: terms of both signs cancel, 1152 of them below 1 to a sum of about 11.
    tolerance=Tolerance(absolute=1e-3, relative=1e-4),
)
