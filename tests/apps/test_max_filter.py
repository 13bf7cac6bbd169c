"""The maximum over a disc."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("max_filter")


def test_max_filter_turns_one_pixel_into_a_disc(realize):
    image = np.zeros((3, 80, 90), np.float32)
    image[1, 40, 45] = 0.5
    y, x = np.mgrid[:80, :90]
    disc = np.where((y - 40) ** 2 + (x - 45) ** 2 <= 26**2, np.float32(0.5), np.float32(0))
    output = realize(APP, image.shape, {"input": image})
    assert np.array_equal(output[1], disc)
    assert not output[[0, 2]].any()


def test_max_filter_takes_the_largest_of_negative_values(realize):
    image = -1 - APP.inputs((3, 41, 67))["input"]
    output = realize(APP, image.shape, {"input": image})
    assert np.array_equal(output, APP.reference({"input": image}))
    assert output.max() < 0


@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 1, 60), (3, 60, 1), (1, 5, 3)])
def test_max_filter_matches_its_reference_at_sizes_below_its_radius(realize, shape):
    inputs = APP.inputs(shape)
    assert APP.tolerance.accepts(realize(APP, shape, inputs), APP.reference(inputs))
