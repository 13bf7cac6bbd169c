"""The recursive blur."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("iir_blur")
SHAPE = (3, 41, 67)


def test_iir_blur_keeps_a_flat_image(realize):
    image = np.full(SHAPE, 0.25, np.float32)
    assert np.allclose(realize(APP, SHAPE, {"input": image, "alpha": 0.1}), image, rtol=1e-5)


def test_iir_blur_without_memory_keeps_the_image(realize):
    inputs = {**APP.inputs(SHAPE), "alpha": 1.0}
    assert np.allclose(realize(APP, SHAPE, inputs), inputs["input"], rtol=1e-6)


def test_iir_blur_forgets_one_pixel_by_the_same_factor_in_both_directions(realize):
    image = np.zeros((1, 101, 101), np.float32)
    image[0, 50, 50] = 1
    output = realize(APP, image.shape, {"input": image, "alpha": 0.5})[0]
    after = output[50, 50:60]
    # A step back from the pixel is the response to what the way forwards left, and so decays alike.
    assert np.allclose(after[1:] / after[:-1], 0.5, rtol=1e-4)
    assert np.allclose(output[50, 41:51][::-1], after, rtol=1e-4)
    assert np.allclose(output, output.T, rtol=1e-4)


@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 1, 7), (3, 7, 1), (1, 2, 2)])
def test_iir_blur_matches_its_reference_at_tiny_sizes(realize, shape):
    inputs = APP.inputs(shape)
    assert APP.tolerance.accepts(realize(APP, shape, inputs), APP.reference(inputs))
