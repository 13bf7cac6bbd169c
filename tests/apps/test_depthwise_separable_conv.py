"""The depthwise separable convolution."""

import numpy as np

import metol_apps

APP = metol_apps.get("depthwise_separable_conv")
SHAPE = (2, 7, 13, 5)


def test_depthwise_separable_conv_moves_a_channel_by_one_tap(realize):
    inputs = {name: np.zeros_like(value) for name, value in APP.inputs(SHAPE).items()}
    inputs["input"] = APP.inputs(SHAPE)["input"]
    # Output channel 3 is twice input channel 20, one row further down and two columns to the right, and a half.
    inputs["depthwise_filter"][1, 2, 20] = 1
    inputs["pointwise_filter"][20, 3] = 2
    inputs["bias"][3] = 0.5
    output = realize(APP, SHAPE, inputs)
    assert np.allclose(output[..., 3], np.maximum(2 * inputs["input"][:, 1:8, 2:15, 20] + 0.5, 0))
    assert not np.delete(output, 3, axis=3).any()


def test_depthwise_separable_conv_adds_channels_only_at_the_end(realize):
    inputs = dict(APP.inputs(SHAPE))
    inputs["pointwise_filter"] = np.abs(inputs["pointwise_filter"])
    inputs["bias"] = np.zeros_like(inputs["bias"])
    whole = realize(APP, SHAPE, {**inputs, "depthwise_filter": np.ones_like(inputs["depthwise_filter"])})
    windows = np.lib.stride_tricks.sliding_window_view(inputs["input"], (3, 3), axis=(1, 2)).sum(axis=(-1, -2))
    assert np.allclose(whole, np.maximum(windows @ inputs["pointwise_filter"], 0), atol=1e-4)
