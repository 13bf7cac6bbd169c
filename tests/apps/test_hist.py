"""Histogram equalisation."""

import numpy as np

import metol_apps

APP = metol_apps.get("hist")


def test_hist_spreads_a_dark_ramp_over_the_range(realize):
    ramp = np.broadcast_to(np.arange(64, dtype=np.uint8), (3, 10, 64)).copy()
    output = realize(APP, ramp.shape, {"input": ramp})
    expected = np.broadcast_to(np.rint((np.arange(64) + 1) * 255 / 64), ramp.shape)
    assert np.max(np.abs(output - expected)) <= 1


def test_hist_keeps_gray_gray(realize):
    image = np.repeat(APP.inputs((3, 41, 67))["input"][:1], 3, axis=0)
    output = realize(APP, image.shape, {"input": image})
    assert np.max(np.ptp(output.astype(int), axis=0)) <= 1


def test_hist_does_not_depend_on_where_pixels_are(realize):
    image = APP.inputs((3, 41, 67))["input"]
    flipped = np.ascontiguousarray(image[:, ::-1, ::-1])
    output, output_flipped = (realize(APP, image.shape, {"input": i}) for i in (image, flipped))
    assert np.array_equal(output[:, ::-1, ::-1], output_flipped)
