"""Lens blur of scenes whose depth is known."""

import numpy as np
import pytest

import metol_apps

APP = metol_apps.get("lens_blur")
SHAPE = (3, 41, 160)
# Columns that show the same in both views, whatever the depth.
INNER = slice(70, 90)


def scene(slice_: int) -> dict[str, np.ndarray]:
    """Return views of a flat scene at the depth of one slice."""
    inputs = dict(APP.inputs(SHAPE))
    left = np.random.default_rng(3).integers(0, 256, SHAPE, np.uint8)
    right = left[:, :, np.clip(np.arange(SHAPE[2]) - 2 * slice_, 0, None)]
    return {**inputs, "left": left, "right": np.ascontiguousarray(right)}


@pytest.mark.slow
def test_lens_blur_leaves_what_is_in_focus(realize):
    inputs = scene(APP.inputs(SHAPE)["focus"])
    output = realize(APP, SHAPE, inputs)
    assert np.array_equal(output[:, :, INNER], inputs["left"][:, :, INNER])


def test_lens_blur_blurs_more_the_further_from_the_focus(realize):
    spread = [realize(APP, SHAPE, scene(slice_))[:, :, INNER].std() for slice_ in (13, 15, 18, 25)]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < spread[0] / 3


def test_lens_blur_grows_with_the_aperture(realize):
    inputs = scene(20)
    closed, open_ = (realize(APP, SHAPE, {**inputs, "growth": growth})[:, :, INNER] for growth in (0, 16))
    assert np.array_equal(closed, inputs["left"][:, :, INNER])
    assert open_.std() < closed.std() / 2
