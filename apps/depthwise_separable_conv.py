"""Depthwise separable convolution: 3x3 in each channel by itself, then a product with a matrix at each pixel.

Activations `[n, y, x, channel]` enter, larger than the output by one pixel on each side, with a 3x3 filter a channel
`[y, x, channel]`, a matrix `[channel in, channel out]` and a bias a channel of the output; rectified activations leave
(Vanhoucke 2014; the first such layer of MobileNet, Howard et al. 2017, on images of 224 pixels).
"""

import halide as hl
import numpy as np

from .app import App, Array, Inputs, Shape, Tolerance

__all__ = ["APP"]

_CHANNELS_IN = 32
_CHANNELS_OUT = 16
_TAPS = 3
_MARGIN = _TAPS - 1
_SIZE = 112
_BATCH = 4


def _build() -> hl.Pipeline:
    c, x, y, n = (hl.Var(name) for name in "cxyn")
    image = hl.ImageParam(hl.Float(32), 4, "input")
    depthwise_filter = hl.ImageParam(hl.Float(32), 3, "depthwise_filter")
    pointwise_filter = hl.ImageParam(hl.Float(32), 2, "pointwise_filter")
    bias = hl.ImageParam(hl.Float(32), 1, "bias")

    tap = hl.RDom([(0, _TAPS), (0, _TAPS)], "tap")
    channel = hl.RDom([(0, _CHANNELS_IN)], "channel")
    depthwise, pointwise = hl.Func("depthwise"), hl.Func("pointwise")
    depthwise[c, x, y, n] = hl.f32(0)
    depthwise[c, x, y, n] += depthwise_filter[c, tap.x, tap.y] * image[c, x + tap.x, y + tap.y, n]
    pointwise[c, x, y, n] = bias[c]
    pointwise[c, x, y, n] += pointwise_filter[c, channel.x] * depthwise[channel.x, x, y, n]
    output = hl.Func("depthwise_separable_conv")
    output[c, x, y, n] = hl.max(pointwise[c, x, y, n], 0.0)

    image.set_estimates([(0, _CHANNELS_IN), (0, _SIZE + _MARGIN), (0, _SIZE + _MARGIN), (0, _BATCH)])
    depthwise_filter.set_estimates([(0, _CHANNELS_IN), (0, _TAPS), (0, _TAPS)])
    pointwise_filter.set_estimates([(0, _CHANNELS_OUT), (0, _CHANNELS_IN)])
    bias.set_estimates([(0, _CHANNELS_OUT)])
    output.set_estimates([(0, _CHANNELS_OUT), (0, _SIZE), (0, _SIZE), (0, _BATCH)])
    return hl.Pipeline(output)


def _inputs(output_shape: Shape, seed: int) -> Inputs:
    batch, height, width, channels = output_shape
    rng = np.random.default_rng(seed)
    shapes = {
        "input": (batch, height + _MARGIN, width + _MARGIN, _CHANNELS_IN),
        "depthwise_filter": (_TAPS, _TAPS, _CHANNELS_IN),
        "pointwise_filter": (_CHANNELS_IN, channels),
        "bias": (channels,),
    }
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def _reference(inputs: Inputs) -> Array:
    image, taps = inputs["input"].astype(np.float64), inputs["depthwise_filter"].astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(image, (_TAPS, _TAPS), axis=(1, 2))
    depthwise = np.einsum("nyxcij,ijc->nyxc", windows, taps)
    rectified: Array = np.maximum(depthwise @ inputs["pointwise_filter"] + inputs["bias"], 0)
    return rectified.astype(np.float32)


APP = App(
    name="depthwise_separable_conv",
    title="Depthwise separable convolution",
    description=f"3x3 convolution of each of {_CHANNELS_IN} channels, their product with a matrix to {_CHANNELS_OUT}, "
    f"bias and ReLU, batch of {_BATCH}, float32.",
    build=_build,
    output_shape=(_BATCH, _SIZE, _SIZE, _CHANNELS_OUT),
    small_output_shape=(2, 7, 13, 5),
    output_type=np.dtype(np.float32),
    make_inputs=_inputs,
    reference=_reference,
    # 288 products of three numbers below 1 and of both signs, to a sum of about 3.
    tolerance=Tolerance(absolute=1e-4, relative=1e-4),
)
