"""The box blur."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("blur")


@pytest.mark.parametrize("level", [0, 1, 16383])
def test_blur_keeps_a_flat_image_of_fourteen_bits(realize, level):
    image = np.full((11, 15), level, np.uint16)
    assert np.array_equal(realize(APP, (9, 13), {"input": image}), image[2:, 2:])


def test_blur_spreads_one_pixel_over_nine(realize):
    image = np.zeros((11, 15), np.uint16)
    image[5, 7] = 900
    expected = np.zeros((9, 13), np.uint16)
    expected[3:6, 5:8] = 100
    assert np.array_equal(realize(APP, (9, 13), {"input": image}), expected)


def test_blur_inputs_stay_in_fourteen_bits():
    assert APP.inputs((200, 150))["input"].max() < 1 << 14
