"""The camera pipeline on mosaics whose picture is known."""

import numpy as np

import metol_apps

APP = metol_apps.get("camera_pipe")
SHAPE = (3, 60, 70)
MARGIN = 16


def gray_inputs(level: int) -> dict[str, np.ndarray]:
    """Return inputs of one level everywhere, and matrices that change no colour."""
    inputs = dict(APP.inputs(SHAPE))
    inputs["input"] = np.full_like(inputs["input"], level)
    for name in ("matrix_lamp", "matrix_daylight"):
        inputs[name] = np.eye(3, 4, dtype=np.float32)
    return inputs


def test_camera_pipe_keeps_gray_gray(realize):
    levels = [realize(APP, SHAPE, gray_inputs(level)) for level in (0, 25, 300, 1023)]
    assert all(np.ptp(output) == 0 for output in levels)
    assert [int(output[0, 0, 0]) for output in levels[:2]] == [0, 0]
    assert 0 < levels[2][0, 0, 0] < 255
    assert levels[3][0, 0, 0] == 255


def test_camera_pipe_removes_hot_pixels(realize):
    inputs = gray_inputs(300)
    inputs["input"][MARGIN + 20, MARGIN + 31] = 1023
    inputs["input"][MARGIN + 40, MARGIN + 12] = 0
    assert np.ptp(realize(APP, SHAPE, inputs)) == 0


def test_camera_pipe_finds_the_colour_of_a_red_image(realize):
    inputs = gray_inputs(25)
    inputs["input"][0::2, 1::2] = 800
    red, green, blue = realize(APP, SHAPE, inputs)
    assert red.min() > 200
    assert max(green.max(), blue.max()) == 0


def test_camera_pipe_sharpens_edges_unless_told_not_to(realize):
    inputs = gray_inputs(200)
    inputs["input"][:, 50:] = 600
    plain, sharp = (realize(APP, SHAPE, {**inputs, "sharpen": strength})[1] for strength in (0, 32))
    assert sharp.max() > plain.max()
    assert sharp.min() < plain.min()
    assert np.array_equal(sharp[:, :10], plain[:, :10])
