"""Unsharp masking."""

import numpy as np

import metol_apps

APP = metol_apps.get("unsharp")


def test_unsharp_keeps_a_flat_image(realize):
    image = np.full((3, 20, 30), 0.25, np.float32)
    # The seven taps hold all but 2 % of the Gaussian in each direction, which the ratio gives back as brightness.
    assert np.allclose(realize(APP, image.shape, {"input": image}), image, rtol=0.05)


def test_unsharp_overshoots_at_an_edge(realize):
    image = np.full((3, 20, 30), 0.25, np.float32)
    image[:, :, 15:] = 0.5
    output = realize(APP, image.shape, {"input": image})
    assert np.all(output[:, :, 14] < output[:, :, 2])
    assert np.all(output[:, :, 15] > output[:, :, 27])


def test_unsharp_of_black_is_black(realize):
    image = np.zeros((3, 9, 9), np.float32)
    assert np.array_equal(realize(APP, image.shape, {"input": image}), image)
