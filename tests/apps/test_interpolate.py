"""Interpolation of sparse pixels."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("interpolate")
SHAPE = (3, 41, 67)


def image_with_opacity(opacity: np.ndarray) -> np.ndarray:
    """Return colours and this opacity, `[4, y, x]`."""
    image: np.ndarray = APP.inputs((3, *opacity.shape))["input"].copy()
    image[3] = opacity
    return image


@pytest.mark.slow
def test_interpolate_keeps_an_opaque_image(realize):
    image = image_with_opacity(np.ones(SHAPE[1:]))
    assert np.allclose(realize(APP, SHAPE, {"input": image}), image[:3], rtol=1e-6)


@pytest.mark.slow
def test_interpolate_fills_the_image_with_its_only_colour(realize):
    image = image_with_opacity(np.zeros(SHAPE[1:]))
    image[3, 20, 30] = 0.5
    output = realize(APP, SHAPE, {"input": image})
    assert np.allclose(output, image[:3, 20, 30].reshape(3, 1, 1), rtol=1e-5)


@pytest.mark.slow
def test_interpolate_does_not_see_transparent_colours(realize):
    image = APP.inputs(SHAPE)["input"]
    hidden = np.where(image[3] == 0, np.float32(7), image)
    hidden[3] = image[3]
    outputs = [realize(APP, SHAPE, {"input": i}) for i in (image, hidden)]
    assert not np.array_equal(image, hidden)
    assert np.array_equal(*outputs)


# On both sides of the 16 and of the 512 pixels at which the levels of the pyramid gain a pixel.
@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 1, 1), (3, 3, 5), (3, 15, 16), (3, 17, 33), (3, 2, 513)])
def test_interpolate_matches_its_reference_at_sizes_around_a_level(realize, shape):
    inputs = APP.inputs(shape)
    assert APP.tolerance.accepts(realize(APP, shape, inputs), APP.reference(inputs))


def test_interpolate_is_a_deep_pipeline(all_funcs):
    # Edge, premultiplied and output; 9 levels down and 9 up of three or two Funcs each, and the bounded one.
    assert len(all_funcs(APP.build())) == 3 + 9 * 2 + 1 + 9 * 3
