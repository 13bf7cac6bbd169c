"""The convolution layer."""

import numpy as np

import metol_apps

APP = metol_apps.get("conv_layer")
SHAPE = (2, 7, 13, 37)


def inputs_without_filters(bias: float) -> dict[str, np.ndarray]:
    """Return inputs for `SHAPE` with filters of zeros and the same bias everywhere."""
    inputs = dict(APP.inputs(SHAPE))
    inputs["filter"] = np.zeros_like(inputs["filter"])
    inputs["bias"] = np.full_like(inputs["bias"], bias)
    return inputs


def test_conv_layer_without_filters_is_the_rectified_bias(realize):
    assert np.all(realize(APP, SHAPE, inputs_without_filters(2)) == 2)
    assert not realize(APP, SHAPE, inputs_without_filters(-2)).any()


def test_conv_layer_moves_channels_by_one_tap(realize):
    inputs = inputs_without_filters(0)
    # Output channel 5 is input channel 100, one row further down and two columns to the right.
    inputs["filter"][100, 1, 2, 5] = 1
    output = realize(APP, SHAPE, inputs)
    assert np.array_equal(output[..., 5], np.maximum(inputs["input"][:, 1:8, 2:15, 100], 0))
    assert not np.delete(output, 5, axis=3).any()


def test_conv_layer_rectifies_about_half_of_its_sums(realize):
    output = realize(APP, SHAPE, APP.inputs(SHAPE))
    assert 0.4 < np.mean(output == 0) < 0.6
