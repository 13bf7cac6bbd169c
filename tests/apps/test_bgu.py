"""Bilateral-guided upsampling of filters that are affine maps of colours, which it can only get right."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("bgu")
SHAPE = (3, 300, 270)


def after(change) -> dict[str, np.ndarray]:
    """Return inputs in which the small copy changed like this."""
    inputs = dict(APP.inputs(SHAPE))
    inputs["after"] = change(inputs["before"]).astype(np.float32)
    return inputs


@pytest.mark.slow
def test_bgu_leaves_an_image_whose_copy_did_not_change(realize):
    inputs = after(lambda before: before)
    assert np.allclose(realize(APP, SHAPE, inputs), inputs["input"], atol=2e-3)


@pytest.mark.parametrize("gain", [0.5, 2.0])
def test_bgu_makes_an_image_as_much_brighter_as_its_copy(realize, gain):
    inputs = after(lambda before: gain * before)
    assert np.allclose(realize(APP, SHAPE, inputs), gain * inputs["input"], atol=5e-3)


def test_bgu_changes_colours_where_the_copy_did(realize):
    def swap_on_the_right(before: np.ndarray) -> np.ndarray:
        half = before.shape[2] // 2
        return np.concatenate([before[:, :, :half], before[::-1, :, half:]], axis=2)

    inputs = after(swap_on_the_right)
    output = realize(APP, SHAPE, inputs)
    assert np.abs(output[:, :, :20] - inputs["input"][:, :, :20]).mean() < 0.02
    assert np.abs(output[:, :, -20:] - inputs["input"][::-1, :, -20:]).mean() < 0.02
